/**
 * The smallest Bun proxy, without keys, ledger, or log: `bun test/bench/floor.ts UPSTREAM_ORIGIN PORT`. `--piped`
 * streams both bodies, as needed for unknown lengths; otherwise the request is read whole and fetch's response passed
 * on, the cheapest form found.
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
