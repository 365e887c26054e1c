"""The records of a node as earlier versions stored them: the position of a client in its log of
searches was the last number of its memory."""

import sqlite3
from contextlib import closing

import numpy as np

TABLE = """
create table client (
    id integer primary key, round integer not null, ask blob not null, before blob not null,
    after blob not null, payload blob not null, weight real not null, spent integer not null,
    released integer not null);
"""


def joined(memory, position):
    number = b"" if position is None else np.float32(position).tobytes()
    return memory + number


def store_as_before(path):
    """Store the records of a file as earlier versions did."""
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute(
            "select id, round, ask, memory_before, memory_after, position_before, position_after,"
            " payload, weight, spent, released from client"
        ).fetchall()
        db.execute("drop table client")
        db.execute("drop table if exists client_before_positions")
        db.execute(TABLE)
        for id, round, ask, before, after, begin, end, *rest in rows:
            memories = joined(before, begin), joined(after, end)
            db.execute(
                "insert into client values (?,?,?,?,?,?,?,?,?)", (id, round, ask, *memories, *rest)
            )
        db.commit()


def content_of(path):
    with closing(sqlite3.connect(path)) as db:
        return list(db.iterdump())
