"""The messages between the controller and the mold."""

import socket

import pytest

from pytest_pasture.control import Channel, Declined, Stop

pytestmark = pytest.mark.once


def test_a_message_arrives_whose_sender_has_left_others_unread() -> None:
    one, other = Channel.pair()
    one.send(Stop())
    other.send(Declined("the session ended"))
    other.close()
    assert one.receive() == Declined("the session ended")
    assert one.receive() is None
    one.close()


def test_a_socket_that_is_closed_gives_no_message() -> None:
    one, other = Channel.pair()
    one.socket.shutdown(socket.SHUT_RDWR)
    assert one.receive() is None and other.receive() is None
    one.close()
    other.close()
