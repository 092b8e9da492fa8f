"""The real driver is killed at random moments, alone or with all that it started; in the end the books are
those of a run that nobody disturbed. Four kills here; ATOMWATCH_KILLS=60 for a longer look."""

import os
import random
import subprocess
from pathlib import Path

from follow_rig import FollowRig, write_triton

KILLS = int(os.environ.get("ATOMWATCH_KILLS", "4"))
_LONGEST_S = 6.0


def test_killed_at_random_nothing_is_lost_and_nothing_measured_twice(tmp_path: Path) -> None:
    triton = write_triton(tmp_path / "triton")
    rig = FollowRig(tmp_path / "killed", triton.folder)
    dice = random.Random(4717)
    killed = ended = 0
    while killed < KILLS:
        driver = rig.start()
        try:
            driver.wait(dice.uniform(0.3, _LONGEST_S))
        except subprocess.TimeoutExpired:
            rig.end(driver, everything=dice.random() < 0.5)
            killed += 1
        else:
            # Nothing was left to do: main goes on.
            ended += 1
            triton.commit(f"Change {8 + ended} (#{8 + ended})", f"lib/n{ended}.cpp")
    print(f"{killed} killed, {ended} ended by themselves")
    done = rig.follow()
    assert done.returncode in (0, 1), done.stdout + done.stderr

    calm = FollowRig(tmp_path / "calm", triton.folder)
    assert calm.follow().returncode == 1
    assert rig.books() == calm.books()
    assert [sha for word, sha in rig.asv_log() if word == "AGAIN"] == []
    assert not list(rig.workspace.results.rglob(".tmp-*"))
