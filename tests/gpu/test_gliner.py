"""GLiNER's words through the device's own LSTM, packed without the library's copies."""

import torch
from torch.nn.utils.rnn import pack_sequence, unpack_sequence

from sie_mcp.adapters.gliner.forward import padded
from sie_mcp.adapters.gliner.head import by_steps, in_steps

DEVICE = torch.device("cuda")


def test_words_come_out_of_the_lstm_as_the_library_packs_them():
    torch.manual_seed(0)
    sizes = [7, 0, 33, 7, 1, 20]
    rnn = torch.nn.LSTM(64, 32, bidirectional=True).to(DEVICE)
    states = torch.randn(sum(sizes), 64, device=DEVICE)
    with torch.inference_mode():
        texts = [one for one in torch.split(states, sizes) if len(one)]
        expected = torch.cat(unpack_sequence(rnn(pack_sequence(texts, enforce_sorted=False))[0]))
        found = in_steps(rnn, states, *by_steps(sizes))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_rows_are_padded_there_as_on_the_host():
    sizes = [2, 5, 1]
    states = torch.randn(sum(sizes), 8)
    assert torch.equal(padded(states.to(DEVICE), sizes).cpu(), padded(states, sizes))
