"""GitHub's objects with every key that its description requires, so that a reader meets all of them."""

from __future__ import annotations

from typing import Any

NOW = "2026-12-01T12:00:00Z"
_USER_URLS = """
    avatar followers following gists html organizations received_events repos starred subscriptions
""".split()
_REPOSITORY_URLS = """
    archive assignees blobs branches collaborators comments commits compare contents contributors
    deployments downloads events forks git_commits git_refs git_tags hooks html issue_comment
    issue_events issues keys labels languages merges milestones notifications pulls releases stargazers
    statuses subscribers subscription tags teams trees clone git ssh svn
""".split()
_COUNTS = """
    forks forks_count open_issues open_issues_count size stargazers_count watchers watchers_count
""".split()
_PULL_URLS = """
    comments commits diff html issue patch review_comment review_comments statuses
""".split()


def user(login: str) -> dict[str, Any]:
    urls = {f"{name}_url": f"https://github.com/{login}" for name in (*_USER_URLS, "events")}
    kind = "Bot" if login.endswith("[bot]") else "User"
    return {
        **urls,
        "login": login,
        "id": 1,
        "node_id": "U1",
        "gravatar_id": "",
        "url": f"https://api.github.com/users/{login}",
        "type": kind,
        "site_admin": False,
    }


def repository(full_name: str) -> dict[str, Any]:
    owner, name = full_name.split("/")
    address = f"https://api.github.com/repos/{full_name}"
    nothing = ["description", "homepage", "language", "mirror_url", "license"]
    has = ["downloads", "issues", "projects", "wiki", "pages"]
    return {
        **{f"{key}_url": address for key in _REPOSITORY_URLS},
        **dict.fromkeys(_COUNTS, 0),
        **dict.fromkeys(nothing),
        **{f"has_{key}": True for key in has},
        "id": 1,
        "node_id": "R1",
        "name": name,
        "full_name": full_name,
        "owner": user(owner),
        "private": False,
        "fork": False,
        "archived": False,
        "disabled": False,
        "default_branch": "main",
        "url": address,
        "pushed_at": NOW,
        "created_at": NOW,
        "updated_at": NOW,
    }


def issue(repo: str, number: int, login: str, title: str, body: str) -> dict[str, Any]:
    address = f"https://api.github.com/repos/{repo}/issues/{number}"
    return {
        "id": number,
        "node_id": f"I{number}",
        "number": number,
        "url": address,
        "html_url": f"https://github.com/{repo}/issues/{number}",
        "repository_url": f"https://api.github.com/repos/{repo}",
        "labels_url": address,
        "comments_url": f"{address}/comments",
        "events_url": f"{address}/events",
        "title": title,
        "body": body,
        "user": user(login),
        "state": "open",
        "locked": False,
        "assignee": None,
        "milestone": None,
        "labels": [],
        "comments": 0,
        "closed_at": None,
        "created_at": NOW,
        "updated_at": NOW,
    }


def pull(repo: str, number: int, merge_sha: str | None, base: str, title: str) -> dict[str, Any]:
    """``merge_sha``: None if it is open; GitHub then names the commit of a trial merge."""
    address = f"https://api.github.com/repos/{repo}/pulls/{number}"
    side = {"label": "x:y", "sha": "0" * 40, "user": user("author"), "repo": repository(repo)}
    link = {"href": address}
    links = ["self", "html", "issue", "comments", "review_comments", "review_comment", "commits", "statuses"]
    return {
        **{f"{key}_url": address for key in _PULL_URLS},
        "id": number,
        "node_id": f"P{number}",
        "number": number,
        "url": address,
        "title": title,
        "body": None,
        "user": user("author"),
        "state": "closed" if merge_sha else "open",
        "locked": False,
        "assignee": None,
        "milestone": None,
        "labels": [],
        "head": {**side, "ref": "topic"},
        "base": {**side, "ref": base},
        "merge_commit_sha": merge_sha or "f" * 40,
        "merged_at": NOW if merge_sha else None,
        "closed_at": NOW if merge_sha else None,
        "created_at": NOW,
        "updated_at": NOW,
        "author_association": "CONTRIBUTOR",
        "auto_merge": None,
        "_links": dict.fromkeys(links, link),
    }


def comment(repo: str, number: int, identity: int, login: str | None, body: str) -> dict[str, Any]:
    """``login``: None where the account was deleted."""
    address = f"https://api.github.com/repos/{repo}/issues"
    return {
        "id": identity,
        "node_id": f"C{identity}",
        "url": f"{address}/comments/{identity}",
        "html_url": f"https://github.com/{repo}/issues/{number}#issuecomment-{identity}",
        "issue_url": f"{address}/{number}",
        "user": user(login) if login else None,
        "author_association": "NONE",
        "body": body,
        "created_at": NOW,
        "updated_at": NOW,
    }


def installation(repo: str, identity: int, app_id: int) -> dict[str, Any]:
    return {
        "id": identity,
        "app_id": app_id,
        "app_slug": "atomwatch",
        "target_id": 1,
        "target_type": "Organization",
        "single_file_name": None,
        "repository_selection": "selected",
        "access_tokens_url": f"https://api.github.com/app/installations/{identity}/access_tokens",
        "repositories_url": "https://api.github.com/installation/repositories",
        "html_url": f"https://github.com/{repo}",
        "events": [],
        "account": user(repo.split("/")[0]),
        "permissions": {"pull_requests": "write"},
        "created_at": NOW,
        "updated_at": NOW,
        "suspended_by": None,
        "suspended_at": None,
    }
