"""Producers of events: a library, a command for JSON lines, and the replay of real flights."""

from agent.producer.entries import FORMS
from agent.producer.library import Producer, partition_of
from agent.producer.sender import Gone, ProducerIdInUse

__all__ = ["FORMS", "Gone", "Producer", "ProducerIdInUse", "partition_of"]
