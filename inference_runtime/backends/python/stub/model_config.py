"""What `auto_complete_config` is given to write the config of its model with."""

from __future__ import annotations

import json
from typing import Any


class ModelConfig:
    def __init__(self, model_config: str) -> None:
        self._config: dict[str, Any] = json.loads(model_config)
        self._name = self._config["name"]

    def as_dict(self) -> dict[str, Any]:
        return self._config

    def set_max_batch_size(self, max_batch_size: int) -> None:
        """Raises ValueError when the config has a larger one."""
        configured = self._config.get("max_batch_size", 0)
        if configured > max_batch_size:
            raise ValueError(
                f"configuration specified max_batch_size {configured}, but in auto-complete-config "
                f"function for model '{self._name}' specified max_batch_size {max_batch_size}"
            )
        self._config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self) -> None:
        for other in ("sequence_batching", "ensemble_scheduling"):
            if other in self._config:
                raise ValueError(
                    f"Configuration specified scheduling_choice as '{other}', but "
                    f"auto-complete-config function for model '{self._name}' tries to set "
                    "scheduling_choice as 'dynamic_batching'"
                )
        self._config.setdefault("dynamic_batching", {})

    def add_input(self, input: dict[str, Any]) -> None:
        self._add("input", input, ("name", "data_type", "dims", "optional"))

    def add_output(self, output: dict[str, Any]) -> None:
        self._add("output", output, ("name", "data_type", "dims"))

    def set_model_transaction_policy(self, transaction_policy_dict: dict[str, Any]) -> None:
        function = f"auto-complete-config function for model '{self._name}'"
        if set(transaction_policy_dict) - {"decoupled"}:
            raise ValueError(
                f"model transaction property in {function} contains property other than 'decoupled'."
            )
        if "decoupled" not in transaction_policy_dict:
            return
        decoupled = transaction_policy_dict["decoupled"]
        policy = self._config.get("model_transaction_policy")
        if policy is not None and policy.get("decoupled", False) != decoupled:
            raise ValueError(
                f"trying to change decoupled property in auto-complete-config for model "
                f"'{self._name}', which is already set to '{policy.get('decoupled', False)}'."
            )
        self._config["model_transaction_policy"] = {"decoupled": decoupled}

    def _add(self, kind: str, entry: dict[str, Any], allowed: tuple[str, ...]) -> None:
        self._check(kind, entry, allowed)
        entries = self._config.setdefault(kind, [])
        known = next((each for each in entries if each["name"] == entry["name"]), None)
        if known is None:
            entries.append(dict(entry))
        else:
            self._merge(kind, known, entry)

    def _check(self, kind: str, entry: dict[str, Any], allowed: tuple[str, ...]) -> None:
        function = f"auto-complete-config function for model '{self._name}'"
        if set(entry) - set(allowed):
            names = [f"'{name}'" for name in allowed]
            named = f"{kind} '{entry['name']}'" if "name" in entry else kind
            raise ValueError(
                f"{named} in {function} contains property other than {', '.join(names[:-1])} and "
                f"{names[-1]}."
            )
        if "name" not in entry:
            raise ValueError(f"{kind} in {function} is missing 'name' property.")
        for required in ("data_type", "dims"):
            if required not in entry:
                raise ValueError(
                    f"{kind} '{entry['name']}' in {function} is missing '{required}' property."
                )

    def _merge(self, kind: str, known: dict[str, Any], entry: dict[str, Any]) -> None:
        """Fills what is open; what is not has to be the same."""
        name = entry["name"]
        if known.get("data_type", "TYPE_INVALID") == "TYPE_INVALID":
            known["data_type"] = entry["data_type"]
        elif known["data_type"] != entry["data_type"]:
            raise ValueError(
                f"unable to load model '{self._name}', configuration expects datatype "
                f"{known['data_type']} for {kind} '{name}', model provides {entry['data_type']}"
            )
        # 64-bit numbers are texts in some forms of a config.
        configured = [int(dim) for dim in known.get("dims", ())]
        if not configured:
            known["dims"] = list(entry["dims"])
        elif configured != [int(dim) for dim in entry["dims"]]:
            raise ValueError(
                f"model '{self._name}', tensor '{name}': the model expects dims {list(entry['dims'])} but "
                f"the model configuration specifies dims {configured}"
            )
        if known.get("optional", False) != entry.get("optional", False) and "optional" in entry:
            raise ValueError(
                f"model '{self._name}', tensor '{name}': the model expects optional "
                f"{entry['optional']} but the model configuration specifies optional "
                f"{known.get('optional', False)}"
            )
