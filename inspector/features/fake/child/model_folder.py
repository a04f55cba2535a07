"""Make a model from a local folder as `transformers` and `diffusers` save it (`hf:./folder`), from its config alone.

Nothing is downloaded, and no code of the folder runs: the class comes from the installed library. Of checkpoints, only
the headers of safetensors files are read, to compare shapes.

Inputs have the sizes that the config says. For parts of diffusion pipelines, the arguments are those of `forward` in
diffusers 0.42 (models/unets, models/transformers, models/autoencoders).

`cut_layers` cuts lists of layers for a first look (`--layers`).

`FakeCheckpoints` opens checkpoints without their values: safetensors files as their headers; a call of
`from_pretrained` stops. A header has names, dtypes and shapes. `safetensors.torch.load_file` and
`safetensors.safe_open` return tensors of the stored shapes and dtypes, without storage. `from_pretrained` of a model
reads all weights, in threads that nothing follows; its config alone makes the same model.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.fake.child.asked_values import AskedValues
from ctrace.inspector.features.fake.child.without_storage import storageless

_LOADERS = {"transformers.modeling_utils": "PreTrainedModel", "diffusers.models.modeling_utils": "ModelMixin"}
"""The classes whose `from_pretrained` all models of a library inherit (transformers 5.23, diffusers 0.42)."""
_INSTEAD = {
    "transformers.modeling_utils": "make it from its config: AutoModel.from_config(AutoConfig.from_pretrained(...))",
    "diffusers.models.modeling_utils": "make it from its config: Model.from_config(Model.load_config(...))",
}
_LONGEST = 100_000_000
"""The limit of safetensors itself, in bytes."""
_METADATA = "__metadata__"
_LENGTH = 8
"""A file begins with the length of its header, in 8 bytes, little-endian."""
DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu", "C64": "complex64", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
"""Torch's names of the dtypes (safetensors 0.8, torch.py: `_TYPES`)."""


class FakeCheckpoints:
    """The hook on what reads checkpoints; it does nothing while values exist."""

    def __init__(self) -> None:
        self._asked: AskedValues | None = None

    def follow(self, asked: AskedValues) -> None:
        """Open checkpoints without values from now on."""
        self._asked = asked

    def stop(self) -> None:
        """Open checkpoints as always."""
        self._asked = None

    @contextmanager
    def __call__(self, recorder: Recorder, when: When) -> Iterator[None]:
        """Install the hook."""
        with ExitStack() as patches:

            def install(module: ModuleType) -> None:
                with recorder.watching("checkpoints without values"):
                    patches.enter_context(self._followed(module))

            for name in ("safetensors", "safetensors.torch", *_LOADERS):
                when(name, install)
            yield

    def _followed(self, module: ModuleType) -> AbstractContextManager[Any]:
        name = module.__name__
        if name == "safetensors":
            return patched(module, "safe_open", self._opening(module.safe_open))
        if name == "safetensors.torch":
            return patched(module, "load_file", self._loading(module.load_file))
        return patched(getattr(module, _LOADERS[name]), "from_pretrained", self._stopping(module))

    def _opening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def safe_open(filename: Any, framework: str, device: Any = "cpu", **options: Any) -> Any:
            # Only torch has tensors without values: other frameworks read theirs.
            if self._asked is None or framework not in ("pt", "torch", "pytorch"):
                return original(filename, framework, device, **options)
            return _OpenedHeader(filename)

        return safe_open

    def _loading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load_file(filename: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
            if self._asked is None:
                loaded: dict[str, Any] = original(filename, *args, **kwargs)
                return loaded
            opened = _OpenedHeader(filename)
            return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - no mapping

        return load_file

    def _stopping(self, module: ModuleType) -> Any:
        original = getattr(module, _LOADERS[module.__name__]).from_pretrained.__func__
        todo = _INSTEAD[module.__name__]

        def from_pretrained(cls: type, *args: Any, **kwargs: Any) -> Any:
            if self._asked is None:
                return original(cls, *args, **kwargs)
            raise self._asked.stop(self._asked.spot(of=module.__name__), f"the weights of a {cls.__name__}", todo)

        return classmethod(from_pretrained)


class _OpenedHeader:
    """What `safe_open` returns, without values (safetensors 0.8, bindings/python/src/lib.rs: `safe_open`)."""

    def __init__(self, filename: Any) -> None:
        self._file = Path(filename)
        self._stored = header_of(self._file)

    def __enter__(self) -> "_OpenedHeader":
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def keys(self) -> list[str]:
        return sorted(self._stored)

    def offset_keys(self) -> list[str]:
        return list(self._stored)

    def metadata(self) -> dict[str, str]:
        return metadata_of(self._file)

    def get_tensor(self, name: str) -> Any:
        import torch

        kind, size = self._entry(name)
        dtype = getattr(torch, DTYPES.get(kind, ""), None)
        if dtype is None:
            raise TargetError(f"{self._file}: {name} has dtype {kind}, which torch lacks", "leave the checkpoint out")
        # An empty tensor on the meta device gives the contiguous strides of the size, and takes no memory.
        return storageless(size, torch.empty(size, device="meta").stride(), dtype)

    def get_slice(self, name: str) -> "_Slice":
        return _Slice(self, name, *self._entry(name))

    def _entry(self, name: str) -> tuple[str, list[int]]:
        if name not in self._stored:
            raise KeyError(f"File does not contain tensor {name}")
        return self._stored[name]


class _Slice:
    """What `get_slice` returns: a tensor of which a part can be read."""

    def __init__(self, opened: _OpenedHeader, name: str, dtype: str, size: list[int]) -> None:
        self._opened, self._name, self._dtype, self._size = opened, name, dtype, size

    def get_shape(self) -> list[int]:
        return self._size

    def get_dtype(self) -> str:
        return self._dtype

    def __getitem__(self, index: Any) -> Any:
        return self._opened.get_tensor(self._name)[index]


fake_checkpoints = FakeCheckpoints()


def header_of(file: Path) -> dict[str, tuple[str, list[int]]]:
    """Return the dtype and shape of each tensor in a file, by name.

    Raises:
        TargetError: the file cannot be read, or its header is damaged.
    """
    try:
        return {
            name: (str(each["dtype"]), [int(size) for size in each["shape"]])
            for name, each in _data(file).items()
            if name != _METADATA
        }
    except (ValueError, KeyError, TypeError):
        raise _wrong(file) from None


def metadata_of(file: Path) -> dict[str, str]:
    """Return what the one who wrote a file said about it."""
    found = _data(file).get(_METADATA) or {}
    if not isinstance(found, dict):
        raise _wrong(file)
    return {str(name): str(value) for name, value in found.items()}


def _data(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(_LENGTH), "little")
            # Before it reads: the length stands in a file of unknown origin, and reading takes that much memory.
            if not 0 < length <= min(_LONGEST, file.stat().st_size - _LENGTH):
                raise _wrong(file)
            data = json.loads(stream.read(length))
    except OSError as error:
        raise TargetError(f"{file} cannot be read: {error.strerror}", "check its name and its permissions") from None
    except (ValueError, RecursionError):
        raise _wrong(file) from None
    if not isinstance(data, dict):
        raise _wrong(file)
    return data


def _wrong(file: Path) -> TargetError:
    return TargetError(f"{file} has no safetensors header", "replace the file, or remove it: only its shapes are read")


_CONFIG = "config.json"
_PIPELINE = "model_index.json"
_CLASS = "_class_name"
_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_OF_DIFFUSERS = "diffusion_pytorch_"
"""What the names of a checkpoint's files begin with in a folder of diffusers."""
_LONGEST_CONFIG = 1 << 20
_LONGEST_INDEX = 64 << 20
_TOKENS = 512
"""The length of a prompt where the config allows more: enough for attention to matter."""
_DECODED = 8
"""The tokens of a decoder's input, which is short when it begins."""
_PROMPT_TOKENS = 512
"""Tokens of a prompt: FLUX's and Stable Diffusion 3's pipelines take that many at most."""
# The length that CLIP was trained with, to which pipelines of Stable Diffusion pad each prompt.
_CLIP_TOKENS = 77
_PATCHES = 64
"""Patches of a side of an image of 1024 pixels: 16 pixels each, after the autoencoder and the patches."""
_SIDE = 64
"""Side of an image or of latents, if the config names none."""


def module_of(folder: Path) -> ModuleType:
    """Return a module with `model`, `inputs` and `notes`, as a model file would define them.

    Raises:
        TargetError: the folder has no config that the installed transformers or diffusers knows.
    """
    # A pipeline has no config of its own, and one of its parts is what can be called as a model.
    if (folder / _PIPELINE).is_file() and not (folder / _CONFIG).exists():
        parts = sorted(each.parent.name for each in folder.glob(f"*/{_CONFIG}"))
        if parts:
            todo = f"name one of its parts, such as hf:{folder}/{parts[0]}"
        else:
            todo = "none of its parts has a config.json"
        raise TargetError(f"{folder} is a pipeline of {len(parts)} models", todo)
    config = _json(folder / _CONFIG, _LONGEST_CONFIG)
    made = _FolderModule(folder.name or "model")
    of_diffusers = _CLASS in config
    stored = _stored(folder, _OF_DIFFUSERS if of_diffusers else "")
    if of_diffusers:
        model = _of_diffusers(folder, config, stored)
    else:
        model = _model(folder, config)
    made.model = model  # type: ignore[attr-defined]
    made.inputs = lambda: inputs_of_diffusers(model) if of_diffusers else _inputs(model)  # type: ignore[attr-defined]
    made.notes = tuple(_compared(stored, model))
    return made


def notes_of(module: ModuleType) -> tuple[str, ...]:
    """Return where a checkpoint disagrees with the config; for a model file, nothing."""
    if isinstance(module, _FolderModule):
        return module.notes
    return ()


class _FolderModule(ModuleType):
    """A module that was made from a folder."""

    notes: tuple[str, ...] = ()


def _json(file: Path, longest: int) -> dict[str, Any]:
    try:
        if file.stat().st_size > longest:
            raise TargetError(f"{file} has more than {longest >> 20} MiB", "name a folder that transformers saved")
        data = json.loads(file.read_text("utf-8"))
    except OSError as error:
        todo = "hf: takes a folder with a config.json, as save_pretrained writes it"
        raise TargetError(f"{file} cannot be read: {error.strerror}", todo) from None
    except (ValueError, RecursionError):
        raise TargetError(f"{file} is no JSON", "name a folder that transformers saved") from None
    if not isinstance(data, dict):
        raise TargetError(f"{file} is no JSON object", "name a folder that transformers saved")
    return data


def _model(folder: Path, config: Mapping[str, Any]) -> Any:
    import torch

    try:
        import transformers
        from transformers import CONFIG_MAPPING
    except ImportError as error:
        raise TargetError(f"hf: needs transformers: {error}", "pip install transformers") from None
    kind, version = str(config.get("model_type")), transformers.__version__
    names = config.get("architectures") or [None]
    cls = getattr(transformers, str(names[0]), None)
    if kind not in CONFIG_MAPPING or not isinstance(cls, type) or not issubclass(cls, torch.nn.Module):
        what = f"{folder}: transformers {version} has no {names[0] or 'architecture'} of model_type {kind}"
        own = "its config names code of its own, which ctrace does not run: write a model file"
        raise TargetError(
            what, own if config.get("auto_map") else "install a newer transformers, or write a model file"
        )
    try:
        known = CONFIG_MAPPING[kind].from_dict(dict(config))
        # On the meta device, a model of any size takes no memory to make.
        with torch.device("meta"):
            return cls._from_config(known).eval()  # type: ignore[attr-defined]
    except Exception as error:  # a config may hold anything
        raise _unmade(folder, f"transformers {version}", cls, error) from None


def _of_diffusers(folder: Path, config: Mapping[str, Any], stored: Mapping[str, tuple[str, list[int]]]) -> Any:
    """Make a part of a pipeline, in the dtype of its checkpoint: its config names none."""
    import torch

    try:
        import diffusers
    except ImportError as error:
        raise TargetError(f"hf: needs diffusers: {error}", "pip install diffusers") from None
    name, version = str(config[_CLASS]), diffusers.__version__
    cls = getattr(diffusers, name, None)
    if not isinstance(cls, type) or not issubclass(cls, torch.nn.Module):
        what = f"{folder}: diffusers {version} has no model {name}"
        raise TargetError(what, "name the folder of a model, install a newer diffusers, or write a model file")
    kinds = {DTYPES.get(kind) for kind, _ in stored.values()}
    try:
        with torch.device("meta"):
            model = cls.from_config(dict(config)).eval()  # type: ignore[attr-defined]
        # diffusers makes a model in float32, while its stored weights tell what it runs in, unless they are mixed.
        if len(kinds) == 1:
            return model.to(getattr(torch, str(kinds.pop())))
        return model
    except Exception as error:  # a config may hold anything
        raise _unmade(folder, f"diffusers {version}", cls, error) from None


def _unmade(folder: Path, library: str, cls: type, error: Exception) -> TargetError:
    first = next(iter(str(error).splitlines()), "")
    what = f"{folder}: {library} makes no {cls.__name__} of its config: {type(error).__name__}: {first}"
    return TargetError(what, f"check config.json, or install the version of {library.split()[0]} that wrote it")


def _inputs(model: Any) -> dict[str, Any]:
    """Return inputs of the kind that the model takes; `--input` names others."""
    import torch

    config, name = model.config, model.main_input_name
    if hasattr(config, "get_text_config"):
        text = config.get_text_config()
    else:
        text = config
    decoded = {}
    if config.is_encoder_decoder:
        decoded["decoder_input_ids"] = torch.randint(0, text.vocab_size, (1, _DECODED))
    if name == "input_ids":
        # More tokens than the model has positions would fail in the call.
        longest = getattr(text, "max_position_embeddings", None) or _TOKENS
        return {name: torch.randint(0, text.vocab_size, (1, min(_TOKENS, longest))), **decoded}
    if name == "pixel_values":
        # A model of text and images holds what its images are like in the config of its image part.
        config = getattr(config, "vision_config", config)
        if isinstance(config.image_size, tuple | list):
            side = config.image_size
        else:
            side = (config.image_size,) * 2
        return {name: torch.randn(1, config.num_channels, *side, dtype=model.dtype), **decoded}
    if name == "input_features" and hasattr(config, "num_mel_bins"):
        # Whisper's second convolution halves the frames, and the positions are counted after it.
        frames = 2 * getattr(config, "max_source_positions", _TOKENS)
        return {name: torch.randn(1, config.num_mel_bins, frames, dtype=model.dtype), **decoded}
    raise TargetError(f"it is not known which {name} {type(model).__name__} takes", 'pass --input "name=float32[1,80]"')


def _compared(stored: Mapping[str, tuple[str, list[int]]], model: Any) -> Iterator[str]:
    """Yield where the headers of the folder's checkpoint disagree with the model that its config makes."""
    if not stored:
        return
    expected = dict(model.named_parameters())
    shapes = [
        f"{name} is {list(stored[name][1])} in the checkpoint and {list(each.shape)} by the config"
        for name, each in expected.items()
        if name in stored and tuple(stored[name][1]) != tuple(each.shape)
    ]
    if shapes:
        yield f"{len(shapes)} parameters have another shape in the checkpoint: {shapes[0]}"
    absent = [name for name in expected if name not in stored]
    if absent:
        yield f"{len(absent)} parameters are not in the checkpoint, such as {absent[0]}"
    kinds = {stored[name][0] for name in expected if name in stored}
    other = {kind for kind in kinds if DTYPES.get(kind) != str(model.dtype).removeprefix("torch.")}
    if other:
        yield f"the checkpoint has weights of {', '.join(sorted(other))}; the model was made in {model.dtype}"


def _stored(folder: Path, begin: str = "") -> dict[str, tuple[str, list[int]]]:
    """Return the dtype and shape of each tensor in the folder's checkpoint, by name.

    Raises:
        TargetError: a file lies outside of the folder, or is damaged.
    """
    index = folder / f"{begin}{_INDEX}"
    if index.exists():
        shards = _json(index, _LONGEST_INDEX).get("weight_map")
        if not isinstance(shards, dict) or not all(isinstance(each, str) for each in shards.values()):
            raise TargetError(f"{index} has no weight_map", "take the index that transformers wrote")
        names = sorted(set(shards.values()))
    else:
        names = [f"{begin}{_SINGLE}"]
    found: dict[str, tuple[str, list[int]]] = {}
    for name in names:
        file = folder / name
        # The names stand in a file of unknown origin, and could lead to any file of the user.
        if "\0" in name or not file.resolve().is_relative_to(folder.resolve()):
            todo = "take the index that transformers wrote; files beside it are not read"
            raise TargetError(f"{index} names {name!r:.100}, which is outside of {folder}", todo)
        if file.is_file():
            found |= header_of(file)
    return found


def inputs_of_diffusers(model: Any) -> dict[str, Any]:
    """Return the inputs of a model of diffusers.

    Raises:
        TargetError: nothing is known of its class.
    """
    import torch

    make = _INPUTS.get(type(model).__name__)
    if make is None:
        what = f"it is not known which inputs {type(model).__name__} takes"
        raise TargetError(what, 'pass each, as in --input "hidden_states=bfloat16[1,4096,64]"')

    def randn(*size: int) -> Any:
        return torch.randn(*size, dtype=model.dtype)

    return make(model.config, randn)


Randn = Callable[..., Any]


def _flux(config: Any, randn: Randn) -> dict[str, Any]:
    patches = _PATCHES * _PATCHES
    made = {
        "hidden_states": randn(1, patches, config.in_channels),
        "encoder_hidden_states": randn(1, _PROMPT_TOKENS, config.joint_attention_dim),
        "pooled_projections": randn(1, config.pooled_projection_dim),
        "timestep": randn(1),
        "img_ids": randn(patches, len(config.axes_dims_rope)),
        "txt_ids": randn(_PROMPT_TOKENS, len(config.axes_dims_rope)),
    }
    return made | ({"guidance": randn(1).float()} if config.guidance_embeds else {})


def _stable_diffusion_3(config: Any, randn: Randn) -> dict[str, Any]:
    return {
        "hidden_states": randn(1, config.in_channels, config.sample_size, config.sample_size),
        "encoder_hidden_states": randn(1, _PROMPT_TOKENS, config.joint_attention_dim),
        "pooled_projections": randn(1, config.pooled_projection_dim),
        "timestep": randn(1),
    }


def _unet(config: Any, randn: Randn) -> dict[str, Any]:
    return {"sample": _image(config, randn), "timestep": randn(1)}


def _conditioned_unet(config: Any, randn: Randn) -> dict[str, Any]:
    if config.addition_embed_type or config.class_embed_type:
        what = "it is not known which conditions this UNet2DConditionModel takes"
        raise TargetError(what, "write a model file with def inputs()")
    return _unet(config, randn) | {"encoder_hidden_states": randn(1, _CLIP_TOKENS, config.cross_attention_dim)}


def _autoencoder(config: Any, randn: Randn) -> dict[str, Any]:
    return {"sample": _image(config, randn)}


def _image(config: Any, randn: Randn) -> Any:
    side = config.sample_size or _SIDE
    return randn(1, config.in_channels, *(side if isinstance(side, list | tuple) else (side, side)))


_INPUTS: dict[str, Callable[[Any, Randn], dict[str, Any]]] = {
    "FluxTransformer2DModel": _flux,
    "SD3Transformer2DModel": _stable_diffusion_3,
    "UNet2DConditionModel": _conditioned_unet,
    "UNet2DModel": _unet,
    "AutoencoderKL": _autoencoder,
}


def cut_layers(modules: Iterable[Any], left: int) -> int:
    """Leave the first layers of each `ModuleList` of one class, and return how many were cut.

    A list within a layer stays whole, such as the experts that a router counts. So does one of different modules: they
    are no repeated layers.
    """
    return sum(_cut(each, left) for each in modules)


def _cut(module: Any, left: int) -> int:
    import torch

    cut = 0
    for child in module.children():
        is_list = isinstance(child, torch.nn.ModuleList) and len({type(each) for each in child}) == 1
        if not is_list:
            # What is inside a list of layers is not cut again: lists there are parts of one layer.
            cut += _cut(child, left)
        elif len(child) > left:
            cut += len(child) - left
            del child[left:]
    return cut
