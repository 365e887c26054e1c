"""A folder of runs that a test changes as a sweep would, and its live page."""

from made_runs import made_run, made_runs

from foltr.report.page.live_page import LivePage


class Folder:
    """Runs and progress, as a sweep would change them."""

    def __init__(self, done=0, planned=4):
        self.done, self.planned, self.failed, self.loads, self.trouble = done, planned, [], 0, None

    def load(self):
        self.loads += 1
        if self.trouble:
            raise self.trouble
        return made_runs([made_run(0.5, seed=s) for s in range(self.done)], title="A sweep")

    def progress(self):
        running = (
            [{"run": f"r{self.done}", "round": 3, "rounds": 20}]
            if self.done < self.planned
            else []
        )
        return {
            "planned": self.planned,
            "done": self.done,
            "failed": self.failed,
            "running": running,
            "left": 12.0,
        }


def live_page_of(folder):
    return LivePage(folder.load, folder.progress)
