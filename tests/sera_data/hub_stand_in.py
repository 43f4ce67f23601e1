"""A small Hub on the loopback: the part of its API that a dataset's push and pull use, over real HTTP.

It keeps repositories, commits (NDJSON) and large files (the LFS batch protocol with basic transfers), answers 401
without a token and hides private repositories from others. `requests` holds what was asked for.
"""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

TOKEN = "hf_stand_in_token"
LARGE = (".parquet",)


class Hub:
    """State: repositories by id, large objects by sha256; `broken`: a path whose downloads lose a byte."""

    def __init__(self):
        self.repos = {}
        self.objects = {}
        self.requests = []
        self.broken = None
        self.fail = None

    def commit(self, repo, lines):
        """Apply one commit; returns its id."""
        files = dict(self.repos[repo]["files"])
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.objects[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        listing = json.dumps({p: hashlib.sha256(c).hexdigest() for p, c in files.items()}, sort_keys=True)
        sha = hashlib.sha1(f"{self.repos[repo]['sha']}{listing}".encode()).hexdigest()
        self.repos[repo].update(files=files, sha=sha, commits=self.repos[repo]["commits"] + 1)
        return sha


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    @property
    def hub(self):
        return self.server.hub

    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def answer(self, status, value=None, headers=None, content=None):
        data = content if content is not None else json.dumps(value or {}).encode()
        self.send_response(status)
        for name, text in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def refuse(self, status, code, message):
        self.answer(status, {"error": message}, {"X-Error-Code": code, "X-Error-Message": message})

    def dispatch(self):
        path = unquote(urlsplit(self.path).path)
        data = self.body()
        self.hub.requests.append((self.command, path))
        if self.hub.fail and self.hub.fail[0] in path:
            return self.refuse(self.hub.fail[1], "", "the stand-in was told to fail")
        allowed = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if path.startswith("/lfs/"):
            return self.upload(path, data)
        if self.command == "POST" and not allowed:
            return self.refuse(401, "", "Invalid credentials")
        if path == "/api/repos/create":
            return self.create(json.loads(data))
        if path == "/api/validate-yaml":
            return self.answer(200, {"errors": [], "warnings": []})
        repo = next(
            (r for r in self.hub.repos if f"/datasets/{r}/" in path + "/" or f"/datasets/{r}.git/" in path), None
        )
        if repo is None or (self.hub.repos[repo]["private"] and not allowed):
            return self.refuse(401 if not allowed else 404, "RepoNotFound", "Repository not found")
        rest = path.partition(repo)[2]
        return self.repository(repo, rest, data)

    do_GET = do_HEAD = do_POST = do_PUT = dispatch

    def create(self, body):
        name = f"{body.get('organization') or 'me'}/{body['name']}"
        if name in self.hub.repos:
            return self.answer(409, {"error": "You already created this dataset repo", "url": f"/datasets/{name}"})
        self.hub.repos[name] = {
            "private": body.get("visibility") == "private",
            "files": {},
            "sha": "0" * 40,
            "commits": 0,
        }
        return self.answer(200, {"url": f"http://{self.headers['Host']}/datasets/{name}", "name": name})

    def repository(self, repo, rest, data):
        state = self.hub.repos[repo]
        if rest.startswith("/preupload/"):
            files = [
                {
                    "path": f["path"],
                    "uploadMode": "lfs" if f["path"].endswith(LARGE) else "regular",
                    "shouldIgnore": False,
                }
                for f in json.loads(data)["files"]
            ]
            return self.answer(200, {"files": files})
        if rest == ".git/info/lfs/objects/batch":
            return self.batch(json.loads(data))
        if rest.startswith("/commit/"):
            sha = self.hub.commit(repo, [json.loads(line) for line in data.splitlines()])
            url = f"http://{self.headers['Host']}/datasets/{repo}/commit/{sha}"
            return self.answer(200, {"commitUrl": url, "commitOid": sha, "success": True})
        if rest.startswith("/tree/"):
            return self.answer(200, self.tree(state))
        if rest.startswith("/resolve/"):
            return self.resolve(state, rest.split("/", 3)[3])
        if rest == "" or rest.startswith("/revision/"):
            if rest and rest.rpartition("/")[2] not in ("main", state["sha"]):
                return self.refuse(404, "RevisionNotFound", "Invalid rev id")
            return self.answer(200, self.info(repo, state))
        return self.refuse(404, "EntryNotFound", rest)

    def info(self, repo, state):
        siblings = [{"rfilename": path, "size": len(c)} for path, c in sorted(state["files"].items())]
        facts = {"id": repo, "sha": state["sha"], "private": state["private"], "siblings": siblings, "tags": []}
        return {**facts, "author": "me", "downloads": 0, "likes": 0, "disabled": False, "gated": False}

    def tree(self, state):
        return [
            {"type": "file", "path": path, "size": len(c), "oid": hashlib.sha1(c).hexdigest()}
            for path, c in sorted(state["files"].items())
        ]

    def resolve(self, state, path):
        content = state["files"].get(path)
        if content is None:
            return self.refuse(404, "EntryNotFound", path)
        if path == self.hub.broken:
            content = content[:-1] + bytes([content[-1] ^ 1])
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": state["sha"]}
        return self.answer(200, headers={**headers, "Accept-Ranges": "bytes"}, content=content)

    def batch(self, body):
        objects = []
        for wanted in body["objects"]:
            known = wanted["oid"] in self.hub.objects
            href = f"http://{self.headers['Host']}/lfs/{wanted['oid']}"
            objects.append({**wanted, **({} if known else {"actions": {"upload": {"href": href}}})})
        return self.answer(200, {"transfer": "basic", "objects": objects})

    def upload(self, path, data):
        oid = path.rpartition("/")[2]
        if hashlib.sha256(data).hexdigest() != oid:
            return self.refuse(422, "", "sha256 does not match")
        self.hub.objects[oid] = data
        return self.answer(200)


@contextmanager
def serving():
    """A running stand-in and its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.hub = Hub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.hub, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
