"""Forms of what needs attention. The limits and their bounds are those that were declared."""

from collections.abc import Iterator
from typing import Any

from django import forms

from dashboard.live.attention import LIMITS, RULES, STARTING, Limit, Limits, Rule
from dashboard.pages.fields import CountField, DurationField
from dashboard.pages.forms import REASON_MAX, Fields, Form


class AcknowledgeForm(Form):
    """`reason`: what base.attempt takes as why something is done."""

    reason = forms.CharField(
        max_length=REASON_MAX,
        required=False,
        label="Note",
        help_text="What is done about it. Shown with your name, and kept in the audit.",
    )


def field_of(limit: Limit) -> CountField:
    kind = DurationField if limit.is_span else CountField
    return kind(least=limit.least, most=limit.most, label=limit.label, help_text=limit.help_text)


class LimitsForm(Form):
    """A field for each limit, by its name."""

    def __init__(self, data: Any, *, limits: Limits) -> None:
        super().__init__(data, initial=dict(limits))
        self.fields.update({name: field_of(limit) for name, limit in LIMITS.items()})

    def rows(self) -> Iterator[tuple[Rule, Fields]]:
        """Of each rule, in their order."""
        for rule in RULES:
            yield rule, [self[limit.name] for limit in rule.begins()]

    @property
    def starting(self) -> Fields:
        return [self[STARTING.name]]
