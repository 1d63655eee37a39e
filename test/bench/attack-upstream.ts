/**
 * The upstream of `attack.ts`, as a process of its own, or whoever measures would wait while it reads what is hostile:
 * `bun test/bench/attack-upstream.ts PORT`. It answers at once: poison with 500, a hostile question with what keeps its
 * pattern busy, any other with JSON.
 */
const answer = (content: string) =>
  Response.json({
    id: 'x',
    object: 'chat.completion',
    created: 1,
    model: 'upstream-model',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
  })
Bun.serve({
  port: Number(process.argv[2]),
  hostname: '127.0.0.1',
  maxRequestBodySize: 2 ** 28,
  async fetch(request) {
    if (request.method !== 'POST') return Response.json({ object: 'list', data: [] })
    const text = await request.text()
    if (text.includes('poison')) return Response.json({ error: { message: 'broken' } }, { status: 500 })
    if (text.includes('hostile')) return answer(JSON.stringify({ answer: `${'a'.repeat(40)}!` }))
    return answer('{"answer":"yes"}')
  },
})
