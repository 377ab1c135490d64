// Serves one file on this machine alone: node serve.mjs FILE [PORT].
import { createReadStream } from "node:fs";
import { createServer } from "node:http";

const [file, wanted = "8765"] = process.argv.slice(2);
const server = createServer((request, response) => {
  if (new URL(request.url, "http://localhost").pathname !== "/")
    return response.writeHead(404).end();
  response.writeHead(200, {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
  });
  createReadStream(file).pipe(response);
});
const listen = (port) => server.listen(port, "127.0.0.1");
// Somebody else's port: any free one will do.
server.once("error", () => listen(0));
server.on("listening", () =>
  console.log(`the lab: http://127.0.0.1:${server.address().port}/   (Ctrl+C ends it)`),
);
listen(Number(wanted));
