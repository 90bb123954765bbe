"""What a recipe may say in places that end up in METADATA, in paths and in the manifest."""

from __future__ import annotations

from pathlib import Path

import pytest

from situ_release.bundle.recipe import load_recipe
from situ_release.errors import InputError
from tests.sources.attempt import is_complete
from tests.synth.wheel import mini_recipe_text

_RUNTIME = 'requires_dist = ["apache-tvm-ffi>=0.1.12,<0.2"]'
_LICENSE = 'path = "licenses/FLASHINFER_LICENSE.txt"'
_VERSION = 'version = "0.1.0.post20260727"'
_LINK = 'Homepage = "https://github.com/lightseekorg/tokenspeed"'
_IMPORT = 'import_name = "tokenspeed_situ"'


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (_RUNTIME, "requires_dist = []", "one requirement must be apache-tvm-ffi"),
        (_RUNTIME, 'requires_dist = ["apache-tvm-ffi"]', "needs its versions"),
        (_RUNTIME, 'requires_dist = ["apache_tvm_ffi>=0.1"]', "nothing else"),
        (_RUNTIME, 'requires_dist = ["apache-tvm-ffi[x]>=0.1"]', "nothing else"),
        (_RUNTIME, "requires_dist = [\"apache-tvm-ffi>=0.1; os_name > 'x'\"]", "nothing else"),
        (_RUNTIME, 'requires_dist = ["apache-tvm-ffi @ https://x/y.whl"]', "nothing else"),
        (_RUNTIME, 'requires_dist = ["apache-tvm-ffi>=0.1\\n"]', "requires_dist"),
        ('requires_python = ">=3.10"', 'requires_python = ""', "requires_python"),
        ('requires_python = ">=3.10"', 'requires_python = " "', "requires_python"),
        ('requires_python = ">=3.10"', 'requires_python = ">=3.10\\n"', "requires_python"),
        (_VERSION, 'version = " 0.1.0\\n"', "normal form"),
        (_VERSION, 'version = "v0.1.0-POST1"', "0.1.0.post1 in its normal form"),
        (_VERSION, 'version = "one"', "PEP 440"),
        (_LINK, '"a\\nRequires-Dist: evil" = "https://x"', r"package.urls.a\nRequires"),
        (_LINK, '"a,b" = "https://x"', "package.urls"),
        (_LINK, '"\U0001f600" = "https://x"', "package.urls"),
        (_LINK, 'Homepage = "https://x\\nRequires-Dist: evil"', "package.urls.Homepage"),
        (_LINK, 'Homepage = "https://\U0001f600"', "package.urls.Homepage"),
        (_LINK, 'Homepage = "javascript:x"', "package.urls.Homepage"),
        ('summary = "', 'summary = "a\u2028b', "package.summary"),
        ('summary = "', 'summary = "a\\u0085b', "package.summary"),
        (_IMPORT, 'import_name = "import"', "cannot be imported"),
        (_LICENSE, 'path = "__init__.py"', "path is wrong"),
        (_LICENSE, 'path = "licenses"', "path is wrong"),
        (_LICENSE, 'path = "licenses/../k3.py"', "path is wrong"),
        (_LICENSE, 'path = "licenses/third_party/x"', "path is wrong"),
        (_LICENSE, 'path = "licenses/flashinfer_notice.txt"', "occur twice"),
        (_LICENSE, 'path = "licenses/FLASHINFER_NOTICE.txt/x"', "a file and a folder"),
        ('gated_act = "siTuGlu"', 'gated_act = ""', "has a gated_act"),
    ],
)
def test_what_no_recipe_may_say(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "r.toml"
    text = mini_recipe_text()
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_recipe(str(path))
    assert is_complete(caught.value)
    assert words in str(caught.value)
