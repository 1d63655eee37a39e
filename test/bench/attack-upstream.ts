/**
 * The upstream of `attack.ts` in a separate process, so that reading hostile input doesn't slow the measurement: `bun
 * test/bench/attack-upstream.ts PORT`. A word in the request selects the response.
 */
const toAnswer = (content: string, fields: Record<string, unknown> = {}) =>
  JSON.stringify({
    id: 'x',
    object: 'chat.completion',
    created: 1,
    model: 'upstream-model',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop', ...fields }],
    usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
  })

const JSON_TYPE = { 'content-type': 'application/json' }

/** Events of each format without content, which are repeated. */
const SILENCE: Readonly<Record<string, string>> = {
  '/v1/messages': 'event: ping\ndata: {"type":"ping"}\n\n',
  '/v1/responses':
    'event: response.in_progress\ndata: {"type":"response.in_progress","response":{"id":"resp_1","object":"response","status":"in_progress","model":"upstream-model","output":[]}}\n\n',
  '/v1/chat/completions':
    'data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"upstream-model","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":0,"total_tokens":10}}\n\n',
}
const SILENCE_BYTES_PER_SECOND = 5_000_000
const SILENCE_MS = 20

function toSilence(path: string): Response {
  const event = SILENCE[path] ?? ''
  const bytes = (SILENCE_BYTES_PER_SECOND * SILENCE_MS) / 1_000
  const piece = Buffer.from(event.repeat(Math.ceil(bytes / event.length)))
  let timer: Timer
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      timer = setInterval(() => {
        if ((controller.desiredSize ?? 0) > -4) controller.enqueue(piece)
      }, SILENCE_MS)
    },
    cancel: () => clearInterval(timer),
  })
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
}

/** In several shapes: names, log probabilities, depth, numbers, escapes, a long text. */
let large: readonly Uint8Array[] | null = null
function toLarge(): readonly Uint8Array[] {
  const token = { token: 'x', logprob: -1, bytes: [120] }
  const logprob = JSON.stringify({ ...token, top_logprobs: Array.from({ length: 20 }, () => token) })
  const within = (text: string) => Buffer.from(toAnswer('', { more: '@' }).replace('"@"', () => text))
  return [
    within(`{${Array.from({ length: 3_500_000 }, (_, i) => `"k${i}":0`).join()}}`),
    Buffer.from(toAnswer('', { logprobs: '@' }).replace('"@"', () => `{"content":[${Array(4_000).fill(logprob)}]}`)),
    within(`${'['.repeat(9_000)}${']'.repeat(9_000)}`),
    within(`[${Array(10_000_000).fill('0.1')}]`),
    Buffer.from(toAnswer('\u0001'.repeat(5_000_000))),
    Buffer.from(toAnswer('words '.repeat(8_000_000))),
  ]
}

let turn = 0
const ANSWERS: readonly [word: string, answer: (path: string) => Response][] = [
  ['poison', () => Response.json({ error: { message: 'broken' } }, { status: 500 })],
  ['hostile', () => new Response(toAnswer(JSON.stringify({ answer: `${'a'.repeat(40)}!` })), { headers: JSON_TYPE })],
  ['silent', toSilence],
  [
    'large',
    () => {
      large ??= toLarge()
      return new Response(large[turn++ % large.length], { headers: JSON_TYPE })
    },
  ],
]

const PIECE = new Uint8Array(64 * 1024)
/** Endless, for as long as it is read. */
const toEndless = (): Response =>
  new Response(new ReadableStream({ type: 'bytes', pull: (controller) => controller.enqueue(PIECE.slice()) }), {
    headers: { 'content-type': 'audio/pcm' },
  })

let pictures: Uint8Array<ArrayBuffer> | null = null
function toPictures(): Response {
  pictures ??= Buffer.from(JSON.stringify({ data: Array(10).fill({ b64_json: 'A'.repeat(14_000_000) }) }))
  return new Response(pictures, { headers: JSON_TYPE })
}

const toEvent = (type: string, megabytes: number) =>
  `event: image_generation.${type}\ndata: ${JSON.stringify({ type: `image_generation.${type}`, b64_json: 'A'.repeat(megabytes * 1_000_000) })}\n\n`

let unfinished: Uint8Array<ArrayBuffer> | null = null
/** 34 MB: two unfinished images and the finished one. */
function toPictureStream(): Response {
  unfinished ??= Buffer.from(toEvent('partial_image', 10).repeat(2) + toEvent('completed', 14))
  return new Response(unfinished, { headers: { 'content-type': 'text/event-stream' } })
}

/** Responses of endpoints other than chat. */
const MEDIA: Readonly<Record<string, (body: string) => Response>> = {
  '/v1/audio/transcriptions': () => Response.json({ text: 'x' }),
  '/v1/images/generations': (body) => (body.includes('"stream":true') ? toPictureStream() : toPictures()),
  '/v1/audio/speech': toEndless,
}

Bun.serve({
  port: Number(process.argv[2]),
  hostname: '127.0.0.1',
  idleTimeout: 0,
  maxRequestBodySize: 2 ** 28,
  async fetch(request) {
    if (request.method !== 'POST') return Response.json({ object: 'list', data: [] })
    const media = MEDIA[new URL(request.url).pathname]
    if (media) {
      const body = Buffer.from(await request.bytes())
      return media(body.toString('latin1', 0, 1_000))
    }
    const text = await request.text()
    const answer = ANSWERS.find(([word]) => text.includes(word))?.[1]
    return answer?.(new URL(request.url).pathname) ?? new Response(toAnswer('{"answer":"yes"}'), { headers: JSON_TYPE })
  },
})
