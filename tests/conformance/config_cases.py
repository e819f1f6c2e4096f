"""Configs that can not be meant, and what Triton says of each; `{m}` stands for the model's name.

Messages are those of §3.3 to §3.12 of the reference, in its order.
"""

ONNX = 'backend: "onnxruntime" '
IDENTITY = 'backend: "identity" max_batch_size: 8 '
FLAT = 'backend: "identity" '  # does not batch
INPUT = 'input { name: "INPUT0" data_type: TYPE_FP32 dims: [4] } '
OUTPUT = 'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [4] } '
PORTS = INPUT + OUTPUT
WHOLE = IDENTITY + PORTS

Cases = list[tuple[str, str]]

IDENTITY_CASES: Cases = [
    ('name: "other"', "unexpected directory name '{m}' for model 'other', directory name must"),
    ("max_batch_size: -1", "'max_batch_size' must be non-negative value for {m}"),
    ('platform: "foo"', "unexpected platform type 'foo' for {m}"),
    (
        'platform: "ensemble" backend: "x"',
        "Ensemble model '{m}' must have platform type 'ensemble' and empty backend type",
    ),
    (
        'backend: "onnxruntime" platform: "tensorrt_plan"',
        "unexpected 'platform' and 'backend' pair, got:tensorrt_plan, onnxruntime",
    ),
    (
        'platform: "foo" default_model_filename: "model.onnx"',
        "unexpected 'platform' and 'backend' pair, got:foo, onnxruntime",
    ),
    (
        'platform: "libtorch" ' + PORTS,
        "unable to find backend library for backend 'pytorch', try specifying runtime on the model "
        "configuration.",
    ),
    (
        'backend: "nope" ' + PORTS,
        "unable to find backend library for backend 'nope', try specifying runtime on the model "
        "configuration.",
    ),
    (
        ONNX + 'runtime: "../x.so"',
        "backend library name '../x.so' escapes backend directory",
    ),
    (
        ONNX + 'runtime: "libmine.so"',
        "unable to find backend library 'libmine.so' for model '{m}'",
    ),
    (
        ONNX + "version_policy { specific { versions: [9] } }",
        "at least one version must be available under the version policy of model '{m}'",
    ),
    ("not a config", "config.pbtxt can not be read"),
]

# Of an input or output → what is said of it.
PORT_CASES: Cases = [
    ("data_type: TYPE_FP32 dims: [4]", "must specify 'name'"),
    ('name: "x" dims: [4]', "'x' must specify 'data_type'"),
    ('name: "x" data_type: TYPE_FP32', "'x' must specify 'dims'"),
    *(
        (
            f'name: "x" data_type: TYPE_FP32 dims: [{dim}]',
            "'x' dimension must be integer >= 1, or -1 to indicate a variable-size dimension",
        )
        for dim in (0, -2)
    ),
    *(
        (
            f'name: "x" data_type: TYPE_FP32 dims: [4] reshape {{ shape: [{dim}] }}',
            "'x' reshape dimensions must be integer >= 1, or -1 to indicate a variable-size dimension",
        )
        for dim in (0, -2)
    ),
    (
        'name: "x" data_type: TYPE_FP32 dims: [4] reshape { shape: [3] }',
        "'x' has different size for dims and reshape",
    ),
    (
        'name: "x" data_type: TYPE_FP32 dims: [4] reshape { }',
        "'x' has different size for dims and reshape",
    ),
    (
        'name: "x" data_type: TYPE_FP32 dims: [4] reshape { shape: [-1] }',
        "'x' has different size for dims and reshape",
    ),
    (
        'name: "x" data_type: TYPE_FP32 dims: [4, -1] reshape { shape: [-1, -1] }',
        "'x' has different number of variable-size dimensions for dims and reshape",
    ),
    (
        'name: "x" data_type: TYPE_FP32 dims: [2, -1, 3] reshape { shape: [3, -1, 2] }',
        "'x' has different size for dims and reshape",
    ),
]

TENSOR_CASES: Cases = [
    *(
        (
            f'{FLAT} {other} {kind} {{ name: "x" data_type: TYPE_FP32 dims: [1] reshape {{ }} }}',
            f"model {kind} 'x' cannot have empty reshape for non-batching model as scalar tensors are "
            "not supported for {m}",
        )
        for kind, other in (("input", OUTPUT), ("output", INPUT))
    ),
    *(
        (
            f'{IDENTITY} {OUTPUT} input {{ name: "x" data_type: TYPE_FP32 dims: [4] format: {layout} }}',
            "model input NHWC/NCHW require 3 dims for {m}",
        )
        for layout in ("FORMAT_NHWC", "FORMAT_NCHW")
    ),
    *(
        (
            f'{IDENTITY} {other} {kind} {{ name: "x" data_type: TYPE_FP32 dims: [4] {flag}: true }}',
            f"{text} for {{m}}",
        )
        for kind, other in (("input", OUTPUT), ("output", INPUT))
        for flag, text in (
            ("is_shape_tensor", "shape tensors are only supported for TensorRT platform"),
            (
                "is_non_linear_format_io",
                "Non-linear IO format is only supported for the TensorRT platform",
            ),
        )
    ),
    (
        IDENTITY + INPUT,
        "model configuration must contain at least one output, none were specified",
    ),
    (
        IDENTITY
        + INPUT
        + 'output { name: "x" data_type: TYPE_FP32 dims: [4] label_filename: "none" }',
        "label file 'none' of output 'x' of model '{m}' can not be read",
    ),
    (
        IDENTITY
        + INPUT
        + 'output { name: "x" data_type: TYPE_FP32 dims: [4] label_filename: "../x" }',
        "must not contain empty, '.' or '..' components",
    ),
]

GROUP_CASES: Cases = [
    *(
        (
            f"{WHOLE} instance_group {{ kind: {kind} gpus: [0] }}",
            f"instance group {{m}}_0 of model {{m}} has kind {kind} but specifies one or more GPUs",
        )
        for kind in ("KIND_MODEL", "KIND_CPU")
    ),
    (
        WHOLE + "instance_group { kind: KIND_GPU }",
        "instance group {m}_0 of model {m} has kind KIND_GPU but server does not support GPUs",
    ),
    (
        WHOLE + 'instance_group { name: "g" profile: ["0"] }',
        "instance group g of model {m} specifies profile field which is only supported for TensorRT "
        "models",
    ),
]

_BATCHING = "dynamic batching preferred size must be"
BATCHING_CASES: Cases = [
    (f"{WHOLE} dynamic_batching {{ {text} }}", message)
    for text, message in (
        ("preferred_batch_size: [0]", _BATCHING + " positive for {m}"),
        ("preferred_batch_size: [9]", _BATCHING + " <= max batch size for {m}"),
        ("priority_levels: 2", "default priority level must be in range [1, 2] for {m}"),
        (
            "priority_levels: 2 default_priority_level: 3",
            "default priority level must be in range [1, 2] for {m}",
        ),
        (
            "priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value { } }",
            "priority queue policy must have priority level in range [1, 2] for {m}",
        ),
        (
            "priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 0 value { } }",
            "priority queue policy must have priority level in range [1, 2] for {m}",
        ),
        (
            "preserve_ordering: true priority_levels: 1 default_priority_level: 1 "
            "priority_queue_policy "
            "{ key: 1 value { timeout_action: DELAY default_timeout_microseconds: 1 } }",
            "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for {m}",
        ),
        (
            "preserve_ordering: true priority_levels: 2 default_priority_level: 1",
            "Only one priority level is allowed when 'preserve_ordering' is true for {m}",
        ),
        (
            "preserve_ordering: true default_queue_policy "
            "{ timeout_action: DELAY default_timeout_microseconds: 1 }",
            "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for {m}",
        ),
    )
]


def _control(text: str, name="START") -> str:
    return f'control_input {{ name: "{name}" control {{ {text} }} }} '


_START = "kind: CONTROL_SEQUENCE_START"
_CORRID = "kind: CONTROL_SEQUENCE_CORRID"
_SIZES = "sequence batching preferred batch size must be"
_ENDS = " for {m}"
SEQUENCE_CASES: Cases = [
    (f"{WHOLE} sequence_batching {{ {text} }}", message)
    for text, message in (
        ("oldest { max_candidate_sequences: 4 preferred_batch_size: [0] }", _SIZES + " positive"),
        (
            "oldest { max_candidate_sequences: 4 preferred_batch_size: [9] }",
            _SIZES + " <= max batch size",
        ),
        (
            "direct { minimum_slot_utilization: 1.5 }",
            "sequence batching minimum slot utilization must be in range (0.0, 1.0]",
        ),
        (
            _control(f"{_START} int32_false_true: [0, 1]", ""),
            "sequence batching control tensor must have a name",
        ),
        (
            f'control_input {{ name: "C" control {{ {_START} int32_false_true: [0, 1] }} '
            "control { kind: CONTROL_SEQUENCE_END int32_false_true: [0, 1] } }",
            "sequence batching control tensor 'C' is specified for multiple control kinds",
        ),
        (
            _control(f"{_START} int32_false_true: [0, 1]", "A")
            + _control(f"{_START} int32_false_true: [0, 1]", "B"),
            "sequence batching specifies multiple CONTROL_SEQUENCE_START tensors",
        ),
        (
            _control(_START),
            "sequence batching must specify either 'int32_false_true', 'fp32_false_true' or "
            "'bool_false_true' for CONTROL_SEQUENCE_START",
        ),
        (
            _control(f"{_START} int32_false_true: [0, 1] fp32_false_true: [0, 1]"),
            "sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' "
            "and 'bool_false_true' for CONTROL_SEQUENCE_START",
        ),
        (
            _control(f"{_START} int32_false_true: [0]"),
            "sequence batching control 'int32_false_true' must have exactly 2 entries for "
            "CONTROL_SEQUENCE_START",
        ),
        (
            _control(f"{_CORRID} int32_false_true: [0, 1] data_type: TYPE_INT32"),
            "sequence batching must not specify either 'int32_false_true', 'fp32_false_true' and "
            "'bool_false_true' for CONTROL_SEQUENCE_CORRID",
        ),
        (
            _control(f"{_CORRID} data_type: TYPE_FP32"),
            "unexpected data type for control CONTROL_SEQUENCE_CORRID for {m}. Allowed data types are "
            "TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING",
        ),
    )
]
SEQUENCE_CASES.append(
    (
        WHOLE + "response_cache { enable: true } sequence_batching { }",
        "Response Cache does not currently support model {m} with sequence batching scheduler. Please "
        "disable the response cache.",
    )
)


def _step(text: str, name='model_name: "simple"') -> str:
    return f"step {{ {name} model_version: -1 {text} }} "


def _map(kind: str, **names: str) -> str:
    return "".join(f'{kind} {{ key: "{k}" value: "{v}" }} ' for k, v in names.items())


_INS = _map("input_map", INPUT0="IN", INPUT1="IN")
_INTS = "data_type: TYPE_INT32 dims: [16]"
_ENSEMBLE = (
    f'platform: "ensemble" max_batch_size: 8 input {{ name: "IN" {_INTS} }} '
    f'output {{ name: "OUT" {_INTS} }} '
)
_GOOD = _step(_INS + _map("output_map", OUTPUT0="OUT"))


def _ensemble(steps: str, more="") -> str:
    return f"{_ENSEMBLE} {more} ensemble_scheduling {{ {steps} }}"


ENSEMBLE_CASES: Cases = [
    (
        WHOLE + "ensemble_scheduling { }",
        "ensemble scheduling cannot be set for model '{m}' whose platform is not ensemble",
    ),
    (_ENSEMBLE, "ensemble scheduling must be set for ensemble {m} whose platform is ensemble"),
    (
        _ensemble(_GOOD, "instance_group { }"),
        "instance group should not be specified for ensemble '{m}'",
    ),
    (
        _ensemble(_GOOD, "optimization { }"),
        "optimization should not be specified for ensemble '{m}'",
    ),
    (
        _ensemble(_GOOD, "model_warmup { }"),
        "model_warmup can not be specified for ensemble '{m}'",
    ),
    (_ensemble(""), "must specify 'step' for ensemble '{m}'"),
    (
        _ensemble(_step(_INS + _map("output_map", OUTPUT0="OUT"), "")),
        "must specify 'model_name' in step 0 of ensemble '{m}'",
    ),
    (
        _ensemble(_step(_map("output_map", OUTPUT0="OUT"))),
        "must specify 'input_map' in step 0 of ensemble '{m}'",
    ),
    (
        _ensemble(_GOOD + _step(_INS)),
        "must specify 'output_map' in step 1 of ensemble '{m}'",
    ),
    (
        _ensemble(_GOOD + _GOOD),
        "ensemble tensor 'OUT' can appear in an output map only once for ensemble '{m}' step 1",
    ),
    (
        _ensemble(_GOOD, f'input {{ name: "SPARE" {_INTS} }}'),
        "ensemble input 'SPARE' for ensemble {m}' is not used",
    ),
    (
        _ensemble(_GOOD, f'output {{ name: "SPARE" {_INTS} }}'),
        "ensemble output 'SPARE' for ensemble {m}' is not used",
    ),
    (
        _ensemble(
            _step(_map("input_map", INPUT0="IN", INPUT1="LOST") + _map("output_map", OUTPUT0="MID"))
            + _step(
                _map("input_map", INPUT0="MID", INPUT1="MID") + _map("output_map", OUTPUT0="OUT")
            )
        ),
        "output 'OUT' for ensemble '{m}' is not written: at least one of its depending tensors, "
        "'LOST', is not connected",
    ),
    (
        _ensemble(_step(_INS + _map("output_map", OUTPUT0="OUT", OUTPUT1="SPARE"))),
        "ensemble tensor 'SPARE' is unused in ensemble '{m}'",
    ),
    (
        _ensemble(_step(_INS + _map("output_map", OUTPUT0="OUT"), 'model_name: "none"')),
        "ensemble {m} contains models that are not available or ambiguous: none",
    ),
    (
        _ensemble(_step(_INS + _map("output_map", OUTPUT0="OUT"), 'model_name: "broken"')),
        "ensemble '{m}' depends on 'broken' which has no loaded version. Model 'broken' loading "
        "failed with error: load failed for model 'broken': version 1 is at UNAVAILABLE state:",
    ),
    (
        _ensemble(_GOOD.replace("model_version: -1", "model_version: 3")),
        "ensemble '{m}' depends on 'simple' whose required version 3 is not loaded.",
    ),
    (
        _ensemble(_step(_INS + _map("output_map", OUTPUT0="OUT"), 'model_name: "{m}"')),
        "circular dependency between ensembles: {m} -> {m}",
    ),
    (
        _ensemble(_step(_INS + _map("input_map", X="IN") + _map("output_map", OUTPUT0="OUT"))),
        "in ensemble {m}, ensemble tensor IN is mapping to non-existing input X in model simple",
    ),
    (
        _ensemble(_step(_INS + _map("output_map", X="OUT"))),
        "in ensemble {m}, ensemble tensor OUT is mapped from non-existing output X in model simple",
    ),
    (
        _ensemble(_step(_map("input_map", INPUT0="IN") + _map("output_map", OUTPUT0="OUT"))),
        "in ensemble {m}, input INPUT1 in model simple is not mapped to any ensemble tensors",
    ),
    (
        _ensemble(_GOOD).replace("TYPE_INT32", "TYPE_FP32"),
        "in ensemble {m}, ensemble tensor IN: inconsistent data type: TYPE_FP32 is inferred from "
        "model {m} while TYPE_INT32 is inferred from model simple",
    ),
    (
        _ensemble(_GOOD).replace("dims: [16]", "dims: [17]"),
        "in ensemble {m}, ensemble tensor IN: inconsistent shape: [-1,17] is inferred from model {m} "
        "while [-1,16] is inferred from model simple",
    ),
    (
        _ensemble(_GOOD).replace("max_batch_size: 8", "max_batch_size: 9"),
        "ensemble {m} allows maximum batch size 9, but it contains model simple which only allows "
        "maximum batch size to be 8",
    ),
]


def _warm_up(text: str) -> str:
    return (
        f'{WHOLE} model_warmup {{ name: "s" batch_size: 1 inputs {{ key: "INPUT0" '
        f"value {{ data_type: TYPE_FP32 {text} }} }} }}"
    )


WARM_UP_CASES: Cases = [
    (
        _warm_up("dims: [-1] zero_data: true"),
        "warmup setting expects all variable-size dimensions are specified for input 'INPUT0'",
    ),
    (_warm_up("dims: [4]"), "warmup setting expects input 'INPUT0' to have input_data_type set"),
    (_warm_up('dims: [4] input_data_file: "none"'), "warmup data file 'none' can not be read"),
]


def _accelerated(text: str) -> str:
    return f"{ONNX} optimization {{ execution_accelerators {{ {text} }} }}"


OTHER_CASES: Cases = [
    (
        _accelerated('cpu_execution_accelerator { name: "nope" }'),
        "unknown Execution Accelerator 'nope' is requested",
    ),
    (
        f'{WHOLE} batch_input {{ kind: BATCH_ELEMENT_COUNT target_name: "T" data_type: TYPE_INT32 }}',
        "batch input kind 'BATCH_ELEMENT_COUNT' expects 1 source input, got 0 for {m}",
    ),
    (
        f'{WHOLE} batch_input {{ target_name: "T" data_type: TYPE_INT32 source_input: "none" }}',
        "unknown source input name 'none' for {m}",
    ),
    (
        f'{WHOLE} batch_input {{ target_name: "T" data_type: TYPE_INT64 source_input: "INPUT0" }}',
        "batch input data type must be TYPE_INT32 or TYPE_FP32 for {m}",
    ),
    (
        f'{WHOLE} batch_output {{ target_name: "OUTPUT0" }}',
        "batch output kind 'BATCH_SCATTER_WITH_INPUT_SHAPE' expects 1 source input, got 0 for {m}",
    ),
    (
        f'{WHOLE} batch_output {{ target_name: "none" source_input: "INPUT0" }}',
        "unknown target output name 'none' for {m}",
    ),
    (
        WHOLE + 'batch_output { target_name: ["OUTPUT0", "OUTPUT0"] source_input: "INPUT0" }',
        "target output name 'OUTPUT0' can only be specified once for {m}",
    ),
    *(
        (f"{WHOLE} model_metrics {{ metric_control {{ {text} }} }}", message)
        for text, message in (
            ("", "metric control must specify 'metric_identifier'"),
            ("metric_identifier { }", "metric identifier must specify non-empty 'family'"),
            (
                'metric_identifier { family: "f" }',
                "metric control must specify 'histogram_options'",
            ),
            (
                'metric_identifier { family: "f" } histogram_options { }',
                "histogram options must specify non-empty 'buckets'",
            ),
        )
    ),
    (
        WHOLE + 'model_repository_agents { agents { name: "nope" } }',
        "unable to find 'libtritonrepoagent_nope.so' for repo agent 'nope'",
    ),
    *(
        (
            f'{WHOLE} model_repository_agents {{ agents {{ name: "checksum" '
            f'parameters {{ key: "{key}" value: "00" }} }} }}',
            message,
        )
        for key, message in (
            ("MD5:config.pbtxt", "Mismatched MD5 hash for file"),
            ("MD5:../x", "repo agent 'checksum' can not read '../x'"),
            ("MD5:none", "repo agent 'checksum' can not read 'none'"),
            ("SHA1:config.pbtxt", "repo agent 'checksum' expects parameters"),
        )
    ),
    (
        WHOLE + "response_cache { enable: true } model_transaction_policy { decoupled: true }",
        "Response Cache does not currently support model {m} with 'decoupled' transaction policy. "
        "Please disable the response cache.",
    ),
]

ALL_CASES: Cases = [
    *IDENTITY_CASES,
    *(
        (
            f"{IDENTITY} {other} {kind} {{ {text} }}",
            f"model {kind} {message} for {{m}}",
        )
        for kind, other in (("input", OUTPUT), ("output", INPUT))
        for text, message in PORT_CASES
    ),
    *TENSOR_CASES,
    *GROUP_CASES,
    *BATCHING_CASES,
    *SEQUENCE_CASES,
    *ENSEMBLE_CASES,
    *WARM_UP_CASES,
    *OTHER_CASES,
]
