"""Events that programs record for listeners. minijax itself records none: see the microscope's recordings.

Each kind of event has a function that records one and functions that add and remove a listener. Listeners are called in
the order of their registration, with the event's name, what belongs to it and its metadata.

Source: https://docs.jax.dev/en/latest/jax.monitoring.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "clear_event_listeners",
    "record_event",
    "record_event_duration_secs",
    "record_event_time_span",
    "record_scalar",
    "register_event_duration_secs_listener",
    "register_event_listener",
    "register_event_time_span_listener",
    "register_scalar_listener",
    "unregister_event_duration_listener",
    "unregister_event_listener",
    "unregister_event_time_span_listener",
    "unregister_scalar_listener",
]

Listener = Callable[..., None]

_events: list[Listener] = []
_durations: list[Listener] = []
_time_spans: list[Listener] = []
_scalars: list[Listener] = []


def record_event(event: str, **metadata: str | int) -> None:
    """``event`` has happened: listeners get ``(event, **metadata)``."""
    _tell(_events, event, metadata=metadata)


def record_event_duration_secs(event: str, duration: float, **metadata: str | int) -> None:
    """``event`` took ``duration`` seconds: listeners get ``(event, duration, **metadata)``."""
    _tell(_durations, event, duration, metadata=metadata)


def record_event_time_span(event: str, start_time: float, end_time: float, **metadata: str | int) -> None:
    """``event`` lasted from one time to the other, in seconds: listeners get both after its name."""
    _tell(_time_spans, event, start_time, end_time, metadata=metadata)


def record_scalar(event: str, value: float | int, **metadata: str | int) -> None:
    """``event`` measured ``value``: listeners get ``(event, value, **metadata)``."""
    _tell(_scalars, event, value, metadata=metadata)


def register_event_listener(callback: Listener) -> None:
    """Call ``callback`` at each ``record_event``."""
    _events.append(callback)


def register_event_duration_secs_listener(callback: Listener) -> None:
    """Call ``callback`` at each ``record_event_duration_secs``."""
    _durations.append(callback)


def register_event_time_span_listener(callback: Listener) -> None:
    """Call ``callback`` at each ``record_event_time_span``."""
    _time_spans.append(callback)


def register_scalar_listener(callback: Listener) -> None:
    """Call ``callback`` at each ``record_scalar``."""
    _scalars.append(callback)


def unregister_event_listener(callback: Listener) -> None:
    """``callback`` is called no more. ValueError if it was not registered."""
    _forget(_events, callback)


def unregister_event_duration_listener(callback: Listener) -> None:
    """``callback`` is called no more. ValueError if it was not registered."""
    _forget(_durations, callback)


def unregister_event_time_span_listener(callback: Listener) -> None:
    """``callback`` is called no more. ValueError if it was not registered."""
    _forget(_time_spans, callback)


def unregister_scalar_listener(callback: Listener) -> None:
    """``callback`` is called no more. ValueError if it was not registered."""
    _forget(_scalars, callback)


def clear_event_listeners() -> None:
    """No listener of any kind is called any more."""
    for listeners in (_events, _durations, _time_spans, _scalars):
        listeners.clear()


def _tell(listeners: list[Listener], *values: Any, metadata: dict[str, Any]) -> None:
    for listener in tuple(listeners):  # a listener may remove itself
        listener(*values, **metadata)


def _forget(listeners: list[Listener], callback: Listener) -> None:
    if callback not in listeners:
        raise ValueError(f"{callback!r} is not registered as such a listener. Register it before removing it.")
    listeners.remove(callback)
