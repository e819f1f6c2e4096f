"""The form that asks for a benchmark. Rules live in the services; this one reads what was typed."""

import json
from typing import Any

from django import forms

from webapp.benchmarks.choices import BenchmarkProtocol
from webapp.benchmarks.load_plan import DEFAULT_LADDER, DEFAULT_WINDOW_SECONDS


class BenchmarkForm(forms.Form):
    version = forms.ChoiceField(
        label="Version", help_text="Versions in service; a benchmark measures one where it runs."
    )
    protocol = forms.ChoiceField(choices=BenchmarkProtocol.choices, initial=BenchmarkProtocol.GRPC)
    concurrency = forms.CharField(
        initial=", ".join(map(str, DEFAULT_LADDER)),
        help_text="Requests in flight at once, one point for each, up to 512.",
    )
    window_seconds = forms.FloatField(
        label="Window (s)",
        initial=DEFAULT_WINDOW_SECONDS,
        help_text="A point is done when three windows lie within 10%, at most ten.",
    )
    batch_size = forms.IntegerField(
        label="Batch size", initial=1, help_text="Items in each request; most callers send one."
    )
    inputs = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "mono"}),
        help_text="The “inputs” of a v2 request as JSON. Empty: generated from the signature.",
    )

    def __init__(self, *args: Any, versions: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["version"].choices = versions  # type: ignore[attr-defined]

    def clean_version(self) -> tuple[str, int]:
        name, _, number = str(self.cleaned_data["version"]).rpartition("/")
        return name, int(number)

    def clean_concurrency(self) -> list[int]:
        words = str(self.cleaned_data["concurrency"]).replace(",", " ").split()
        try:
            return [int(word) for word in words]
        except ValueError:
            raise forms.ValidationError("Write whole numbers, such as 1, 2, 4, 8.") from None

    def clean_inputs(self) -> Any:
        text = str(self.cleaned_data["inputs"]).strip()
        if not text:
            return None
        try:
            return json.loads(text)
        except ValueError as problem:
            raise forms.ValidationError(f"This is not JSON: {problem}.") from None
