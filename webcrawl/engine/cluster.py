"""Commands for a Valkey or Redis Cluster, each batch confirmed by a replica; see webcrawl.engine.replication."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.exceptions import AskError, MovedError

from webcrawl.engine.replication import Command, Replication
from webcrawl.errors import EngineUnavailable

_MOVES = 5
"""How often a moved slot is followed before its commands fail as unavailable."""


class EngineCluster:
    """Adds to redis-py's client one round trip for each server, and replies that survive a failover."""

    def __init__(self, client: RedisCluster) -> None:
        self._client = client
        self._replications: dict[str, Replication] = {}
        """Name of a server -> its replication."""
        self._astray = False
        """Whether a command failed, so that other servers may have the slots now."""

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """Returns replies in order, with an exception for each command that failed.

        Raises an error of webcrawl.engine.client.UNAVAILABLE if no server answers. A command with such an error may
        still have been executed.
        """
        replies: list[Any] = [None] * len(commands)
        todo: Iterable[int] = range(len(commands))
        for _ in range(_MOVES):
            await self._find_servers()
            by_server: dict[ClusterNode, list[int]] = {}
            for index in todo:
                slot = self._client.keyslot(commands[index].key)
                by_server.setdefault(self._client.nodes_manager.get_node_from_slot(slot), []).append(index)
            asked = (
                self._ask(server, [commands[index] for index in indexes])
                for server, indexes in by_server.items()
            )
            for indexes, answers in zip(by_server.values(), await asyncio.gather(*asked), strict=True):
                for index, answer in zip(indexes, answers, strict=True):
                    replies[index] = answer
            todo = [index for index, reply in enumerate(replies) if isinstance(reply, MovedError)]
            for index in todo:
                await self._client.nodes_manager.move_slot(replies[index])
            if not todo:
                break
        self._astray = any(isinstance(reply, Exception) for reply in replies)
        return [_slot_moving(reply) if isinstance(reply, AskError) else reply for reply in replies]

    async def servers(self) -> list[str]:
        """Returns the run IDs of all primaries, and the slots of each."""
        infos = await self._client.info("server", target_nodes=self._client.PRIMARIES)
        slots = await self._client.execute_command("CLUSTER SLOTS", target_nodes=self._client.RANDOM)
        runs = [infos] if "run_id" in infos else infos.values()
        return sorted(
            [str(info["run_id"]) for info in runs] + [f"{at} {of['primary']}" for at, of in slots.items()]
        )

    async def _find_servers(self) -> None:
        await self._client.initialize()
        if self._astray:
            await self._client.nodes_manager.initialize()
            self._astray = False

    async def _ask(self, server: ClusterNode, commands: Sequence[Command]) -> list[Any]:
        """Makes one round trip to one server; an exception takes the place of each reply that it prevented."""
        replication = self._replications.get(server.name)
        if replication is None:
            replication = Replication(replicated=bool(self._client.get_replicas()))
            self._replications[server.name] = replication
        pipeline = self._client.pipeline()
        for command in commands:
            pipeline.execute_command(*command.words, target_nodes=server)
        for words in replication.ending():
            pipeline.execute_command(*words, target_nodes=server)
        try:
            replies = list(await pipeline.execute(raise_on_error=False, allow_redirections=False))
        except Exception as error:
            return [error] * len(commands)
        if not replication.is_primary(replies):
            return replies[: len(commands)]  # a replica, which has rejected all commands
        return replication.confirmed(replies, server.name)


def _slot_moving(error: AskError) -> EngineUnavailable:
    # not followed: a script names its keys by a prefix, so the server redirects the script before its keys have moved
    return EngineUnavailable(f"slot {error.slot_id} is being moved to {error.host}:{error.port}")
