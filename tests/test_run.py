"""Samples in hand: how many bytes of pictures are in memory, and when there is room for more."""

import asyncio

from factories import picture

from tasks.judging.case import Case
from tasks.judging.run import MOST_PICTURE_BYTES, InHand
from tasks.pictures.prepare import Picture
from tasks.records import Place, Sample


def case(size: int) -> Case:
    sample = Sample(sample_id="s1", candidate="alpha", record=Place(path="test.json"))
    return Case(sample, {}, {"image": Picture(picture("a"), bytes(size))})


async def is_let_in(hand: InHand) -> bool:
    waiting = asyncio.create_task(hand.few_bytes())
    for _ in range(3):
        await asyncio.sleep(0)
    done = waiting.done()
    waiting.cancel()
    return done


def test_a_chunk_waits_until_the_pictures_in_hand_are_few_bytes() -> None:
    async def scene() -> list[bool]:
        hand, cases = InHand(), [case(MOST_PICTURE_BYTES // 2 + 1), case(MOST_PICTURE_BYTES // 2)]
        found = [await is_let_in(hand)]
        hand.add(cases)
        found.append(await is_let_in(hand))
        waiting = asyncio.create_task(hand.few_bytes())
        await asyncio.sleep(0)
        hand.free(cases[0])
        await asyncio.wait_for(waiting, 5)
        hand.free(cases[0])  # a sample whose pictures have gone frees nothing
        hand.free(cases[1])
        hand.add([case(MOST_PICTURE_BYTES + 1)])
        return [*found, await is_let_in(hand)]

    assert asyncio.run(scene()) == [True, False, False]


def test_what_is_freed_is_no_longer_in_memory_and_its_notes_are() -> None:
    hand, freed = InHand(), case(100)
    hand.add([freed])
    hand.free(freed)
    assert freed.picture_bytes == 0
    assert freed.notes() == {"image": picture("a")}
