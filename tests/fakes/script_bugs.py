"""Bugs to be planted into the scripts: each changes a line of one script's text.

Found by the simulation or by the differential test; a text that no longer has the line is refused,
so that no bug is planted in vain.
"""

from typing import Protocol

from assignment.lua import script, with_common
from tests.fakes import lua

REVIVED = """
    local stored = grant_of(ARGV[from + 2 * i - 2])
    if stored and stored.member == member and stored.fence == fence and not found then
      redis.call('SET', names[i], member .. '/' .. fence, 'PXAT', until_ms)
      held = true
    end"""
EPOCH_CHECKS = ("'another coordinator runs'", "'the mode changed'", "'nothing changed'")


class Patch(Protocol):
    """As pytest's MonkeyPatch, which takes it out again."""

    def setitem(self, mapping: dict[str, str], name: str, value: str) -> None: ...


def plant(patch: Patch, name: str, *changes: tuple[str, str]) -> None:
    """Each change is a part of the script's text, and what stands there instead, which may use the
    common parts.
    """
    text = script(name)
    for part, instead in changes:
        assert text.count(part) == 1, f"{name} has {text.count(part)} times {part!r}"
        text = text.replace(part, instead)
    patch.setitem(lua.CHANGED, name, with_common(text, "_streams", "_common"))


def before(line: str, more: str) -> tuple[str, str]:
    return line, f"{more}\n{line}"


def after(line: str, more: str) -> tuple[str, str]:
    return line, f"{line}\n{more}"


# --- locks and batches ----------------------------------------------------------------------------


def commit_without_fence_check(patch: Patch) -> None:
    """Takes the commit of whoever asks."""
    plant(patch, "commit", ("if not grant or grant.fence ~= fence then", "if false then"))


def commit_without_offset_check(patch: Patch) -> None:
    """From wherever, so that what was applied before is applied again."""
    line = "local committed = redis.call('HGET', key('offsets'), partition)"
    plant(patch, "commit", after(line, "from = committed or '0-0'"))


def commit_of_what_another_server_had(patch: Patch) -> None:
    """A batch that was planned before a failover, with events that are lost."""
    plant(patch, "commit", ("ARGV[11] ~= server", "false"))


def commit_never_says_already(patch: Patch) -> None:
    said = "return {'already', committed, ARGV[8] == '1' and last and last[1] or ''}"
    plant(patch, "commit", (said, "return {'moved', committed}"))


def acquire_with_fence_reused(patch: Patch) -> None:
    """The next owner gets the fence of the one before."""
    last = "stored and tonumber(befores[i].fence) or 0"
    plant(patch, "acquire", (last, f"({last}) - 1"))


def acquire_gives_a_stale_own_lock_back(patch: Patch) -> None:
    """Although another may have had a newer fence that Redis lost."""
    own = "if holder == member"
    plant(patch, "acquire", (f"{own} and tonumber(fence) > lowest", own))


def acquire_under_any_run(patch: Patch) -> None:
    """Redis runs anew, without its last writes, and grants on."""
    taken = "redis.call('HSET', KEYS[1], 'run_id', run_id())"
    asked = "local meta = redis.call('HMGET', KEYS[1], 'mode_epoch'"
    plant(patch, "acquire", before(asked, taken))


def release_that_resets_the_counter(patch: Patch) -> None:
    """What was given up is forgotten, and its fences start anew."""
    forgotten = "  if #held > 0 then redis.call('HDEL', key('grants'), unpack(held)) end"
    plant(patch, "release", before("  released = released or", forgotten))


def release_does_not_compare(patch: Patch) -> None:
    last = "    one.fence = (grant_of(partition) or one).fence"
    plant(patch, "release", before("    local is_held = locks[i]", last))


def release_that_leaves_what_was_owned(patch: Patch) -> None:
    forgets = "  redis.call('HDEL', key('owned:' .. member), unpack(partitions))\n"
    plant(patch, "release", (forgets, ""))


def renew_that_takes_back(patch: Patch) -> None:
    """An expired lock lives again when nobody took it meanwhile."""
    line = "and redis.call('PEXPIREAT', names[i], until_ms) == 1"
    plant(patch, "renew", after(line, REVIVED))


def snapshot_trims_to_itself(patch: Patch) -> None:
    plant(patch, "snapshot", ("'MINID', before['changelog_id']", "'MAXLEN', 0"))


# --- members and targets --------------------------------------------------------------------------


def join_taken_as_new(patch: Patch) -> None:
    """Asked twice, it counts as gone and come again."""
    gone = "if stored then remove_member(member, 'released', 'join') end"
    plant(patch, "join", before("local row = cjson.decode(ARGV[3])", gone))


def join_forgets_that_it_was_told_to_leave(patch: Patch) -> None:
    plant(patch, "join", ("row['drain'] = before['drain']", ""))


# Of processes that share an instance name.


def join_takes_over_a_live_process(patch: Patch) -> None:
    plant(patch, "join", ("if not before['stopped'] then", "if false then"))


def join_compares_no_beat(patch: Patch) -> None:
    """Whoever waited takes over, whatever the one before did meanwhile."""
    plant(patch, "join", ("seen ~= '' and seen ~= there", "false"), (
        "seen == '' or now - tonumber(beat) < wait_ms", "seen == ''"
    ))  # fmt: skip


def join_leaves_the_locks_of_the_process_before(patch: Patch) -> None:
    plant(patch, "join", ("  end_locks(member, 'expired')\n", ""))


def whoever_names_a_member_speaks_for_it(patch: Patch) -> None:
    said = "process ~= '' and"
    for name in ("acquire", "renew", "next_batch"):
        plant(patch, name, (said, "false and"))


def next_batch_of_what_is_paused(patch: Patch) -> None:
    plant(patch, "next_batch", ("if has_pauses and pause_of(partition) then", "if false then"))


def evict_without_beat_check(patch: Patch) -> None:
    """Judged by an old look, although a sign of life came since."""
    plant(patch, "evict", ("if tonumber(beat) > tonumber(ARGV[2]) then", "if false then"))


def report_takes_late_ones(patch: Patch) -> None:
    late = "if sequence and tonumber(sequence) >= tonumber(ARGV[4]) then"
    plant(patch, "report", (late, "if false then"))


def report_never_hears_of_ready_learners(patch: Patch) -> None:
    plant(patch, "report", before("local able, leaving =", "ARGV[11] = ''"))


def set_target_without_epochs(patch: Patch) -> None:
    """The target of a coordinator that was overtaken replaces the newer one."""
    checks = (f"then return {{'stale', {why}" for why in EPOCH_CHECKS)
    plant(patch, "set_target", *((check, "then local _ = {") for check in checks))


def set_target_ignores_the_coordinator(patch: Patch) -> None:
    why = "then return {'stale', 'another coordinator runs'"
    plant(patch, "set_target", (why, "then local _ = {"))


def switch_without_compare(patch: Patch) -> None:
    """Whoever asks last has its mode, whatever it had seen."""
    plant(
        patch, "set_mode", ("if incarnation ~= ARGV[1] or epoch ~= ARGV[2] then", "if false then")
    )


def switch_that_moves(patch: Patch) -> None:
    """It makes a rebalance due."""
    plant(patch, "set_mode", ("hint('mode', '')", "group_changed('mode', '')"))


def acquire_forgets_the_mode(patch: Patch) -> None:
    plant(patch, "acquire", ("if meta[1] ~= ARGV[3] then", "if false then"))


def set_target_forgets_the_mode(patch: Patch) -> None:
    why = "then return {'stale', 'the mode changed'"
    plant(patch, "set_target", (why, "then local _ = {"))


def set_target_keeps_every_ready_learner(patch: Patch) -> None:
    plant(patch, "set_target", ("then forget_ready(member) end", "then end"))


def drain_changes_no_epoch(patch: Patch) -> None:
    plant(patch, "set_drain", ("group_changed(reasons[drain], '')", "hint(reasons[drain], '')"))


def an_abort_leaves_learners_in_the_target(patch: Patch) -> None:
    plant(patch, "set_drain", ("if drain == '' and #changed > 0 then", "if false then"))


def a_target_from_before_an_abort_is_stored(patch: Patch) -> None:
    plant(patch, "set_drain", ("redis.call('HINCRBY', KEYS[1], 'coordinator_epoch', 1)", ""))
