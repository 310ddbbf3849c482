"""Which call about a sample goes first, which of a run, and who waits for them."""

import asyncio
from collections.abc import Sequence

import pytest

from tasks.judging.leading import FirstCalls, Leading

CALLS = ("faithfulness", "conciseness", "readability")


class Scene:
    """Calls of one group, each of which is on its way until the test lets it end."""

    def __init__(self, candidates: Sequence[str] = CALLS) -> None:
        self.leading = Leading[str]()
        self.candidates = candidates
        self.begun: list[str] = []
        self.ends = {call: asyncio.Event() for call in CALLS}

    async def call(self, name: str, group: str = "human_first", fails: bool = False) -> None:
        async with self.leading.turn(group, name, self.candidates):
            self.begun.append(name)
            await self.ends[name].wait()
            if fails:
                raise ConnectionError("no reply")

    def start(self, name: str, group: str = "human_first", fails: bool = False) -> asyncio.Task[None]:
        return asyncio.create_task(self.call(name, group, fails))


async def rest() -> None:
    """Until all tasks have gone as far as they can."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_the_first_of_a_group_leads_in_whatever_order_they_come() -> None:
    async def story() -> None:
        scene = Scene()
        tasks = [scene.start(name) for name in reversed(CALLS)]
        await rest()
        assert scene.begun == ["faithfulness"]
        scene.ends["faithfulness"].set()
        await rest()
        assert sorted(scene.begun[1:]) == ["conciseness", "readability"], "the others start together"
        for end in scene.ends.values():
            end.set()
        await asyncio.gather(*tasks)

    asyncio.run(story())


@pytest.mark.parametrize("how", ["fails", "cancelled"])
def test_a_leader_that_comes_to_nothing_lets_the_others_go(how: str) -> None:
    async def story() -> None:
        scene = Scene()
        leader = scene.start("faithfulness", fails=how == "fails")
        scene.start("conciseness")
        await rest()
        assert scene.begun == ["faithfulness"]
        leader.cancel() if how == "cancelled" else scene.ends["faithfulness"].set()
        await asyncio.gather(leader, return_exceptions=True)
        await rest()
        assert scene.begun == ["faithfulness", "conciseness"]

    asyncio.run(story())


def test_a_leader_that_ended_once_is_waited_for_no_more() -> None:
    async def story() -> None:
        scene = Scene()
        scene.ends["faithfulness"].set()
        await scene.call("faithfulness")
        again, other = scene.start("faithfulness"), scene.start("readability")
        await rest()
        assert scene.begun == ["faithfulness", "faithfulness", "readability"]
        again.cancel(), other.cancel()

    asyncio.run(story())


@pytest.mark.parametrize("before", [True, False], ids=["before anyone waits", "while others wait"])
def test_nobody_waits_for_a_call_that_is_given_up(before: bool) -> None:
    async def story() -> None:
        scene = Scene()
        if before:
            scene.leading.give_up(lambda call: call == "faithfulness")
        waiting = [scene.start(name) for name in CALLS[1:]]
        await rest()
        assert scene.begun == (["conciseness"] if before else []), "the next one leads where that is known in time"
        scene.leading.give_up(lambda call: call == "faithfulness")
        scene.ends["conciseness"].set()
        await rest()
        assert scene.begun == ["conciseness", "readability"]
        for task in waiting:
            task.cancel()

    asyncio.run(story())


def test_each_group_has_a_leader_of_its_own() -> None:
    async def story() -> None:
        scene = Scene()
        tasks = [scene.start("faithfulness", order) for order in ("human_first", "model_first")]
        await rest()
        assert scene.begun == ["faithfulness", "faithfulness"]
        for task in tasks:
            task.cancel()

    asyncio.run(story())


@pytest.mark.parametrize("how", ["ends", "fails", "cancelled"])
def test_the_first_call_with_each_key_goes_ahead_and_the_others_follow_in_their_order(how: str) -> None:
    async def story() -> None:
        first_calls, begun, ends = FirstCalls(), list[str](), {key: asyncio.Event() for key in "ab"}

        async def call(name: str) -> None:
            async with first_calls.turn(name[0]):
                begun.append(name)
                await ends[name[0]].wait()
                if how == "fails":
                    raise ConnectionError("no reply")

        tasks = [asyncio.create_task(call(name)) for name in ("a1", "a2", "b1", "b2", "a3")]
        await rest()
        assert begun == ["a1", "b1"]
        tasks[0].cancel() if how == "cancelled" else ends["a"].set()
        await rest()
        assert begun == ["a1", "b1", "a2"], "it came before there was another to wait for"
        ends["b"].set()
        await rest()
        assert begun == ["a1", "b1", "a2", "b2", "a3"]
        ends["a"].set()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(story())
