/**
 * The smallest Bun proxy that copies the same bytes: what Tollgate's cost is compared with. Started by `subjects.ts`
 * as `bun test/bench/floor.ts UPSTREAM_ORIGIN PORT`; keeps no keys, no ledger and no log. Two forms: `--piped` passes
 * both bodies on as streams, as a proxy that does not know how long they are must; without it the request is read
 * whole and fetch's own answer handed on, which no code of ours ever sees: the cheapest form found.
 */
const [origin = '', port = '0', ...flags] = process.argv.slice(2)
const pipes = flags.includes('--piped')

Bun.serve({
  hostname: '127.0.0.1',
  port: Number(port),
  idleTimeout: 255,
  async fetch(request) {
    const { pathname } = new URL(request.url)
    const answer = await fetch(origin + pathname, {
      method: request.method,
      headers: { 'content-type': 'application/json' },
      body: pipes || request.method === 'GET' ? request.body : await request.arrayBuffer(),
      signal: request.signal,
    })
    return pipes ? new Response(answer.body, answer) : answer
  },
})
