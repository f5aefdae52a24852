"""Bitmaps of 64-bit numbers beside bytes that Java's ``Roaring64Bitmap`` wrote."""

from __future__ import annotations

import zlib
from base64 import b85decode
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pytest

from headwater.storage.errors import Invalid
from headwater.storage.merge.column_functions import ColumnFunction
from headwater.storage.merge.field_aggregates import GroupedColumn
from headwater.storage.merge.roaring64 import roaring64_union
from headwater.storage.options import TableOptions
from headwater.storage.schema.table_schema import Schema

# What RoaringBitmap 1.2.1 wrote of forty keys in a row and negative numbers; of 168 keys at three
# depths; and of 199 keys and one with many numbers. The tests with Java make more of them.
_LOW = zlib.decompress(b85decode(
    "c-rmM$7(}C429vjz5DjwyY2UXyFi>w8s=YS86ud`;adtJ<tDyLmES|CSE0*fnTD>ZiU==(@41d$7I~H?aWoEn*EV%^"
    "9{aW~^Yr+mr3==NC<;YYDVj#nb&6q7Op{_+6x*ga4#jmTo=5S0N)S*k7fKjXqKFd5lq8{~DJ9D&c}^(`N?B5>ic;5<"
    "rlGVgrRyktPZ<WvI8vsGGS8G{p{y%q+bH`^IS$HsKFQ~1U%%J*{k`60P-Qg!`)|82KF0YXkH+okV#rCq0i;0fQv"
))  # fmt: skip
_DEEP = zlib.decompress(b85decode(
    "c-rmPdrZw?9LMqVJLlKwbUK|*M<q#;BuNsITXM@ip<I&WmV_iBgd}%Da!ZnXGcz+YGqYx9W@d(&nVFfHnVFfHnRz_t"
    "IHlkFAM+0zeg8P$XRrO9f1clYp5OCP>U6HsJAUdNU6BLj=fF^+)202QR2{2P^a@4QQ;Y_RNu`+GC>A5d>Q1qlD0UBu"
    "ubJZSNeQq}0=+0fR!XopCB#Mv^`V5>Dd8<B5x$g2KT4E8CAuXgCV&##iqa#H64#m%A4KWXhSD#XlF*it7(yA;jxr>a"
    "lGL6uJd85317&nLCAlLdC4w@(6D2j0GO;sdaug-K3ne3(lG&A#6+@ZXjWRoylHHw>(}R-Rld>R=lGlrpA5SUhO)2a{"
    "S=N_Q)Q_^VKczT<vSt9KB#}}&kWw~?vT-nF^AO6`p_J`Ol=5MeUBf9ABPf+4Df>oI4veN$jiFR0Q)<RiYEvl3#!*g;"
    "r<|HVsY|7tNu!*dNI5r&a(*)9!W7EIbjqcvl*<{EE7K@fGbz`mQ|hxQ*Jn^}%%t3$MY%Pba(fQtPB!K4T*|#1%Kdqi"
    "hq;tT^C^!PP@XKLJk6s#TSR%DPkFJJ^0I*PY6<0aA?3|d%G+g>cgrd7izpvfP(H4td|E~MTuk}0n(}oG<=fhZOOE{1"
    "3WLxKMd*aPFbX%J3Qu7c9>OHNg;jV7i)bP2!bjMIqx^)g_{XYYRTNzb)=AN?qo}16<9dpzjAGtEv23JRH&JYxDfTTC"
    "->nq?ZIpoRl)xR7pmIv^PD;owO6YD%SOq0~4<(|K61i6+j+^(shJUD!<A(2UbW;uTM(%C(vUr+3Os-dF6aPu6KQfN2"
    "{Y_S?-nmo<v?5pQpjKo^snUvUhqNL?O0`yGNI9$(8B%JrB16g%t;mp4s}&hij%r1Qlw(?vA?3JMWJo!o6&X@aYDI>W"
    "Q(BQB<#gk2mdD%!=O$KMn^|$D#UEXDb)%~*u5NI3x8`}x^P1;1&-?T9oQGM{XLWzQ|3=j{89UD6?_~3J76"
))  # fmt: skip
_WIDE = zlib.decompress(b85decode(
    "c-rmS+YNvq5Jb^gMES4-zir0$Y)R`fhDGsJfyq4?Wt|vk0Bdz<WKzga{_@qQq<H?4TUVPDAC2h}YZ2~EC}&;!ZJiIR"
    "zoQmeDBFBi>j!C?M?wf8gb?zx2mk;800000fVcKG=Nkn(ylp{9"
))  # fmt: skip
_UNION = "c23a19525660fa6d1380f3c30ca715048870aeb3648e46d177af36e7e9f882bb"


def test_unions_have_the_bytes_that_java_writes() -> None:
    assert sha256(roaring64_union([_LOW, _DEEP, _WIDE])).hexdigest() == _UNION
    # What is there already changes nothing, nor does nothing.
    for state in (_LOW, _DEEP, _WIDE):
        assert roaring64_union([state, state]) == roaring64_union([state, b"\0"]) == state
    assert roaring64_union([b"\0", b"\0"]) == b"\0"


@pytest.mark.parametrize("state", [_LOW, _DEEP, _WIDE], ids=["low", "deep", "wide"])
def test_bytes_that_end_elsewhere_are_refused(state: bytes) -> None:
    for end in {*range(0, len(state), 1 + len(state) // 200), len(state) - 1}:
        with pytest.raises(ValueError, match=r"Roaring64Bitmap|container"):
            roaring64_union([state[:end], _LOW])
    with pytest.raises(ValueError, match="1 bytes follow its end"):
        roaring64_union([state + b"\0", _LOW])


@pytest.mark.parametrize("state", [_LOW, _DEEP, _WIDE], ids=["low", "deep", "wide"])
def test_damaged_bytes_are_refused_or_other_numbers(state: bytes) -> None:
    refused = 0
    for at in range(0, len(state), 1 + len(state) // 60):
        for changed in (0, 0x80, 0xFF, state[at] ^ 1):
            damaged = state[:at] + bytes([changed]) + state[at + 1 :]
            try:
                merged = roaring64_union([damaged, _LOW])
            except ValueError:
                refused += 1
            else:
                # It is a bitmap, which can be read again.
                assert roaring64_union([merged, _LOW]) == merged
    assert refused > 40


def test_damaged_bytes_name_their_column() -> None:
    field = Schema.from_arrow(pa.schema([("seen", pa.binary())])).fields[0]
    function = ColumnFunction.of(field, "rbm64", TableOptions({})).function
    values = pa.array([_LOW, _DEEP[:-1], None, _WIDE], pa.binary())
    with pytest.raises(Invalid, match=r"column 'seen' holds bytes that are no state.*too soon"):
        function.merge(GroupedColumn(values, np.array([0, 3])))
    whole = pa.array([_LOW, _DEEP, None, _WIDE], pa.binary())
    both, alone = function.merge(GroupedColumn(whole, np.array([0, 3]))).to_pylist()
    assert (both, alone) == (roaring64_union([_LOW, _DEEP]), _WIDE)
