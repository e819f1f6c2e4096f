"""Forms: the serving settings, each with its sentence and default, and a runtime's addresses."""

import re
from typing import Any

from django import forms

from webapp.serving.config_values import ServingValues

_SPACES = re.compile(r"[\s,;]+")


class ServingConfigForm(forms.Form):
    instance_count = forms.IntegerField(
        label="Instances",
        required=False,
        help_text="How many copies of each version run at once on each device. "
        "Empty: what the uploaded config says, else the runtime's choice.",
    )
    max_batch_size = forms.IntegerField(
        label="Max batch size",
        required=False,
        help_text="The most requests joined into one execution; 0 never joins. "
        "Empty: what the uploaded config says, else 4 where the model can batch.",
    )
    dynamic_batching = forms.BooleanField(
        label="Dynamic batching",
        required=False,
        help_text="Requests that wait at the same time run as one. Default: on.",
    )
    preferred_batch_sizes = forms.CharField(
        label="Preferred batch sizes",
        required=False,
        help_text="Sizes at which a batch is sent off without waiting longer, such as 4, 8. "
        "Empty: the max batch size.",
    )
    max_queue_delay_microseconds = forms.IntegerField(
        label="Max queue delay (µs)",
        required=False,
        help_text="How long a request may wait for others to join it. Default: 0, sent at once.",
    )
    max_queue_size = forms.IntegerField(
        label="Max queue size",
        required=False,
        help_text="How many requests may wait for a version before more are refused. "
        "Default: 0, no limit.",
    )
    default_timeout_microseconds = forms.IntegerField(
        label="Queue timeout (µs)",
        required=False,
        help_text="How long a request may wait before it is refused. "
        "Default: 0, as long as it takes.",
    )
    revision = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs.setdefault("autocomplete", "off")

    def clean_preferred_batch_sizes(self) -> list[int]:
        words = [word for word in _SPACES.split(self.cleaned_data["preferred_batch_sizes"]) if word]
        if not all(word.isascii() and word.isdigit() and len(word) < 6 for word in words):
            raise forms.ValidationError("Whole numbers are expected, such as 4, 8.")
        return [int(word) for word in words]

    def values(self) -> dict[str, Any]:
        """As the API takes them: an empty field is its default."""
        data = {name: value for name, value in self.cleaned_data.items() if name != "revision"}
        zero_when_empty = (
            "max_queue_delay_microseconds",
            "max_queue_size",
            "default_timeout_microseconds",
        )
        return data | {name: data[name] or 0 for name in zero_when_empty}

    @staticmethod
    def initial_of(values: ServingValues, revision: int) -> dict[str, Any]:
        return values.to_json() | {
            "preferred_batch_sizes": ", ".join(map(str, values.preferred_batch_sizes)),
            "revision": revision,
        }


class AddressForm(forms.Form):
    http_address = forms.CharField(
        label="HTTP address",
        max_length=200,
        help_text="host:port, without http://.",
        widget=forms.TextInput(attrs={"placeholder": "10.0.0.7:8000", "autocomplete": "off"}),
    )
    grpc_address = forms.CharField(
        label="gRPC address",
        max_length=200,
        help_text="What the control plane itself mostly speaks to.",
        widget=forms.TextInput(attrs={"placeholder": "10.0.0.7:8001", "autocomplete": "off"}),
    )
    metrics_address = forms.CharField(
        label="Metrics address",
        max_length=200,
        required=False,
        help_text="Where /metrics is. Empty: at the HTTP address.",
        widget=forms.TextInput(attrs={"placeholder": "10.0.0.7:8002", "autocomplete": "off"}),
    )

    def addresses(self) -> dict[str, str]:
        return {
            name: self.cleaned_data[name]
            for name in ("http_address", "grpc_address", "metrics_address")
        }


class RuntimeForm(AddressForm):
    name = forms.CharField(
        label="Name",
        max_length=60,
        help_text="Letters, digits, '_' and '-'; it cannot be changed later.",
        widget=forms.TextInput(attrs={"placeholder": "edge-1", "autocomplete": "off"}),
    )
    field_order = ("name", "http_address", "grpc_address", "metrics_address")
