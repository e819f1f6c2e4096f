"""How whoever takes the responses of a request holds back whoever makes them."""

import asyncio


class Backpressure:
    """Of one request, or of several that are held back together. Event loop only.

    A maker of responses counts: after every `portion` of them it waits here before it goes on, or, so that it
    need not pause each time, before it has made one portion more. So it is never further ahead than twice that.
    """

    __slots__ = ("_on", "_outer", "_waiters", "_within", "portion")

    def __init__(self, portion: int, outer: "Backpressure | None" = None) -> None:
        """`outer`: of the request that these requests are part of; both have to let them go on."""
        self.portion: int = portion if outer is None else min(portion, outer.portion)
        self._on = False
        self._outer = outer
        self._within: set[Backpressure] = set()
        self._waiters: list[asyncio.Future[None]] = []
        if outer is not None:
            outer._within.add(self)

    @property
    def on(self) -> bool:
        return self._on or (self._outer is not None and self._outer.on)

    def hold(self) -> None:
        self._on = True

    def release(self) -> None:
        self._on = False
        self._changed()

    def leave(self) -> None:
        """Nobody wants to hold back these requests any more, whatever becomes of the one they are part of."""
        if self._outer is not None:
            self._outer._within.discard(self)
            self._outer = None
        self.release()

    async def wait(self) -> None:
        """Returns when the next portion is welcome; a release is leave for one, whatever comes after it."""
        if self.on:
            released = asyncio.get_running_loop().create_future()
            self._waiters.append(released)
            await released

    def _changed(self) -> None:
        if self.on:
            return
        waiters, self._waiters = self._waiters, []
        for released in waiters:
            if not released.done():
                released.set_result(None)
        for each in self._within:
            each._changed()
