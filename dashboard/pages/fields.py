"""Fields that take durations, counts, sizes and names as people type them, within bounds."""

import re
from typing import Any

from django import forms

from assignment.errors import InvalidInput
from dashboard.pages import amounts, texts


class CountField(forms.Field):
    """A whole number within bounds, which are named as it is typed; None where it is empty."""

    def __init__(self, *, least: int, most: int, **more: Any) -> None:
        super().__init__(widget=forms.TextInput({"class": "number", "autocomplete": "off"}), **more)
        self.least, self.most = least, most

    def read(self, text: str) -> int:
        """Raises InvalidInput that names the text."""
        return amounts.parse_count(text)

    def said(self, value: int) -> str:
        return texts.grouped(value)

    def prepare_value(self, value: Any) -> Any:
        """What was typed stays as it was typed."""
        return self.said(value) if isinstance(value, int) else value

    def to_python(self, value: Any) -> int | None:
        text = "" if value is None else str(value).strip()
        if not text:
            return None
        try:
            return self.read(text)
        except InvalidInput as error:
            raise forms.ValidationError(str(error)) from error

    def validate(self, value: Any) -> None:
        super().validate(value)
        if value is None:
            return
        if value < self.least:
            raise forms.ValidationError(f"must be {self.said(self.least)} or more")
        if value > self.most:
            raise forms.ValidationError(f"must be {self.said(self.most)} or less")


class DurationField(CountField):
    """In `unit_ms`. A number without a unit counts in `alone_ms`, as its help text says."""

    def __init__(self, *, unit_ms: int = 1, alone_ms: int | None = None, **more: Any) -> None:
        super().__init__(**more)
        self.unit_ms, self.alone_ms = unit_ms, alone_ms or unit_ms

    def read(self, text: str) -> int:
        count, rest = divmod(amounts.parse_span(text, self.alone_ms), self.unit_ms)
        if rest:
            raise InvalidInput(f"{text!r} is not in whole {amounts.exact_span(self.unit_ms)}")
        return count

    def said(self, value: int) -> str:
        return amounts.exact_span(value * self.unit_ms)


class SizeField(CountField):
    """Bytes."""

    def read(self, text: str) -> int:
        return amounts.parse_size(text)

    def said(self, value: int) -> str:
        return amounts.exact_size(value)


class NamesField(forms.CharField):
    """A tuple, typed with commas or in lines."""

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list | tuple) else value

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        return tuple(part for part in map(str.strip, re.split(r"[,\n]", text)) if part)
