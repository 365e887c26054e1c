"""Replace the keys of a node while it stays connected, and its clients keep their numbers.

1. On the node's machine, `rotate_node` makes new keys in the folder `next` of the node's keys, and
   a card with their public keys. The current key signs the card, so the server's operator need
   not compare fingerprints.
2. On the server, `replace_node` adds the new keys to the node's entry in the roster. From now on
   the node may connect with either key.
3. The node opens a second connection with the new key. The server then uses this one, and the old
   key becomes invalid (`server/live_roster.py`). The node moves its new keys to where the old
   ones were (`promote`).

If the old key is lost or stolen, the operator confirms the new one by its fingerprint instead. The
old one becomes invalid at that moment."""

from __future__ import annotations

import shutil
import ssl
from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from pathlib import Path

from foltr.core.errors import Mistake, require
from foltr.core.system.files import write_whole, writing
from foltr.core.system.log import Reloaded, Tell
from foltr.core.system.private import make_folder, private_content, replace_private
from foltr.deployment.keys.keys import (
    NODE_KEY,
    SIGN_KEY,
    new_node_keys,
    public_line,
    public_of_sign_key,
    read_node_key,
    read_sign_key,
    sign_by_node,
    signed_by_node,
)
from foltr.deployment.keys.roster import Roster, Seat, canonical, fingerprint, table_text
from foltr.deployment.keys.roster_file import (
    card_table,
    card_text,
    change_node,
    read_card,
    seat_of_card,
)

NEXT = "next"  # folder of the new keys, in the folder of the node's keys
DELETING = ".next"  # its name while it is deleted
PURPOSE = b"foltr: the keys that replace those of a node, 1\n"


@dataclass(frozen=True)
class Replacement:
    """A card that replaces a node's keys."""

    seat: Seat  # with the new keys
    replaces: bytes  # the public key that signed it
    signature: bytes

    @property
    def is_signed(self) -> bool:
        """Whether the owner of the earlier key has signed exactly these keys."""
        text = signed_text(self.seat, self.replaces)
        return signed_by_node(self.replaces, self.signature, text)


def signed_text(seat: Seat, replaces: bytes) -> bytes:
    """What the earlier key signs: the name, the number of clients, the new keys and itself."""
    return PURPOSE + table_text(seat).encode() + b"replaces " + replaces


def rotate_node(folder: Path) -> tuple[Seat, Path]:
    """Make new keys for a node, beside those in `folder`. Returns the node with the new keys, and
    the path of the card that the server's operator needs."""
    known, old = own_card(folder), read_node_key(folder / NODE_KEY)
    where = folder / NEXT
    if where.exists():
        raise Mistake(
            f"{where} has new keys already: send their card to the server's operator, or delete"
            " the folder to make others"
        )
    (key, signs), private = new_node_keys()
    seat, replaces = replace(known, key=key, signs=signs), public_line(old)
    card = f"{known.name}.replace.toml"
    signature = sign_by_node(old, signed_text(seat, replaces))
    text = (
        f'{card_text(seat)}replaces = "{replaces.decode()}"\n'
        f'signature = "{b64encode(signature).decode()}"\n'
    )
    make_folder(where, private=private, public={card: text.encode()})
    return seat, where / card


def own_card(folder: Path) -> Seat:
    """The node whose keys are in a folder, by its card there."""
    cards = sorted(folder.glob("*.node.toml")) if folder.is_dir() else []
    if len(cards) != 1:
        found = f"{len(cards)} cards" if cards else "no card"
        raise Mistake(
            f"{folder} has {found} (NAME.node.toml): give the folder that `foltr keys node NAME`"
            " made"
        )
    return read_card(cards[0])


def read_replacement(path: Path) -> Replacement:
    """Read a card that replaces a node's keys. Its signature is not checked yet."""
    table = card_table(path)
    replaces, signature = table.pop("replaces", None), table.pop("signature", None)
    way_out = "(`foltr keys rotate` makes such a card)"
    if not isinstance(replaces, str) or not isinstance(signature, str):
        raise Mistake(
            f"{path} is no card that replaces keys: it has no `replaces` and `signature`"
            f" {way_out}. If the old key is lost, give --lost-key"
        )
    seat = seat_of_card(table, path)
    try:
        return Replacement(seat, canonical(replaces), b64decode(signature, validate=True))
    except ValueError as error:  # a Mistake, too
        raise Mistake(f"{path}: {error} {way_out}") from None


def replace_node(path: Path, card: Path, lost_key: bool = False, drop_old: bool = False) -> Seat:
    """Replace the keys of a node in the roster file `path`. Returns its new entry.

    Without `drop_old`, the old key stays valid until the node has connected with the new one.
    With `lost_key`, `card` is a plain card; the old key is dropped at once."""
    if lost_key:
        seat = read_card(card)
        after = change_node(path, seat.name, lambda roster: _lost(roster, seat))
    else:
        given = read_replacement(card)
        seat = given.seat
        after = change_node(path, seat.name, lambda roster: _replaced(roster, given, drop_old))
    return after.seat(seat.name)


def _replaced(roster: Roster, given: Replacement, drop_old: bool) -> Roster:
    before, new = _same_node(roster, given.seat), given.seat
    if given.replaces != before.key:
        raise Mistake(
            f"the card of {new.name} replaces the key {fingerprint(given.replaces)}, and the"
            f" roster has {before.fingerprint}: make a card with `foltr keys rotate` on the node"
        )
    require(
        given.is_signed,
        f"the card of {new.name} is not signed by the key in the roster: send the file again as"
        " `foltr keys rotate` made it",
    )
    waits = before.next_key == new.key
    require(
        drop_old or not waits,
        f"{new.name} has this new key already: the old one is dropped when the node has connected"
        " with the new one, or now by --drop-old",
    )
    after = before.with_next_keys(new.key, new.signs)
    return roster.with_seat(after.with_replaced_keys() if drop_old else after)


def _lost(roster: Roster, new: Seat) -> Roster:
    before = _same_node(roster, new)
    return roster.with_seat(before.with_next_keys(new.key, new.signs).with_replaced_keys())


def _same_node(roster: Roster, new: Seat) -> Seat:
    """The entry whose keys are to be replaced."""
    before = roster.seat(new.name)
    require(not before.revoked, f"{new.name} is revoked: its keys cannot be replaced")
    require(new.key != before.key, f"{new.name} has this key already: nothing is left to do")
    require(
        new.clients == before.clients,
        f"the card of {new.name} has {new.clients} clients, and the roster {before.clients}: a"
        " node's clients never change",
    )
    return before


def promote(folder: Path) -> None:
    """Move a node's new keys to where its keys are, after the server has dropped the old ones.
    The old private keys are deleted. Safe to repeat after an interruption."""
    where, known = folder / NEXT, own_card(folder)
    key, signs = read_node_key(where / NODE_KEY), read_sign_key(where / SIGN_KEY)
    seat = replace(known, key=public_line(key), signs=public_of_sign_key(signs))
    for name in (SIGN_KEY, NODE_KEY):
        replace_private(folder / name, private_content(where / name))
    write_whole(folder / f"{known.name}.node.toml", card_text(seat))
    gone = folder / DELETING
    with writing(where):
        shutil.rmtree(gone, ignore_errors=True)
        where.rename(gone)  # at once: half of a folder would be taken for new keys
        shutil.rmtree(gone)


# TLS certificates that are replaced while a server runs.


def server_context(
    certificate: Path | str, key: Path | str, oldest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
) -> ssl.SSLContext:
    """The TLS context of a server. Raises a Mistake if the files are no certificate and its
    key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = oldest
    for name in (certificate, key):
        try:
            Path(name).read_bytes()
        except OSError as error:
            raise Mistake(f"cannot read {name}: {error.strerror}; it is needed for TLS") from error
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        raise Mistake(
            f"{certificate} and {key} are no certificate and its key ({error}):"
            " `foltr keys server` makes them"
        ) from error
    return context


def follow_certificate(
    certificate: Path | str,
    key: Path | str,
    tell: Tell,
    oldest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
) -> Reloaded[ssl.SSLContext]:
    """The TLS context of a server. Listen with its first value: new connections then use the
    certificate and key that these files have. Call `refresh` regularly: it reads changed files
    again."""
    files = Path(certificate), Path(key)
    current = Reloaded(files, lambda: server_context(certificate, key, oldest), tell)

    def chosen(connection: ssl.SSLObject, name: str | None, first: ssl.SSLContext) -> None:
        connection.context = current.value  # before anything of it is sent

    current.value.sni_callback = chosen  # called without a name, too
    return current
