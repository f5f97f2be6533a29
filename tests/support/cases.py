"""The case table (../shared/data/cases): what each case asks of a family, and what is recorded of the answer."""

from __future__ import annotations

from typing import Any

from . import shared_data

#: Above this many characters the fresh reference is not asked (it needs minutes for some): recorded ids are enough.
REFERENCE_CHARS = 12_000

_EXPECTED = shared_data.expected()


def probes_of(case: dict[str, Any], name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
    """Return a case's probes for a family and the recorded answers; for others, another family's probes and None."""
    module = shared_data.cases_module()
    assert module is not None
    probes: list[dict[str, Any]] = module.probes(case, name)
    if probes:
        return probes, _EXPECTED[case["id"]][name]
    if case["input"].get("patch"):
        return [], None
    kin = next((kin for kin in module.FAMILIES if module.probes(case, kin)), None)
    return (module.probes(case, kin) if kin else []), None


def states(probe: dict[str, Any]) -> list[tuple[str, bool]]:
    """Return the texts that a probe passes through, each with its add_special_tokens."""
    add = bool(probe.get("add_special_tokens", False))
    if probe["t"] == "text":
        return [(probe["s"], add)]
    if probe["t"] == "seam":
        return [(probe["a"], False), (probe["a"] + probe["b"], False)]
    if probe["t"] == "edit":
        return [(probe["a"], False), (probe["b"], False)]
    if probe["t"] == "stream":
        return [("".join(probe["parts"][: index + 1]), False) for index in range(len(probe["parts"]))]
    return [(text, bool(flag)) for text, flag in probe["items"]]


def is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
