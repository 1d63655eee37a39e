/**
 * A model server as a program that behaves as llama-server (503 at `/health` while loading, `/props`, a key, chats,
 * TERM). Options: --port --alias --api-key; --props FILE (extra properties, JSON); --load MS; --ill (never healthy);
 * --die (exits at start); --deaf (ignores TERM); --child (spawns a process). A last message of `crash`, `hang` or
 * `fail` is obeyed, `wait MS` delays, `much` returns enough tokens to measure speed.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Its command line, as in a catalog. */
export const modelServer = (...options: string[]): string[] => [
  process.execPath,
  join(import.meta.dir, 'model-server.ts'),
  ...['--port', '{port}', '--alias', '{slug}', '--api-key', '{key}'],
  ...options,
]

if (import.meta.main) serve(process.argv.slice(2))

/** @param words its options. */
export function serve(words: string[]): void {
  const optionOf = (name: string) => words[words.indexOf(name) + 1] ?? ''
  const has = (name: string) => words.includes(name)
  const [alias, key] = [optionOf('--alias'), optionOf('--api-key')]
  console.log(`model server ${alias} with ${key}`)
  if (has('--die')) {
    console.error('error: failed to load model')
    process.exit(1)
  }
  if (has('--child')) Bun.spawn(['sleep', '1000'])
  if (has('--deaf')) process.on('SIGTERM', () => console.log('not now'))
  else process.on('SIGTERM', () => process.exit(0))
  const props = has('--props') ? JSON.parse(readFileSync(optionOf('--props'), 'utf8')) : {}
  const readyMs = performance.now() + (has('--load') ? Number(optionOf('--load')) : 0)
  const isHealthy = () => !has('--ill') && performance.now() >= readyMs
  try {
    Bun.serve({
      hostname: '127.0.0.1',
      port: Number(optionOf('--port')),
      idleTimeout: 0,
      routes: {
        '/health': () => (isHealthy() ? Response.json({ status: 'ok' }) : loading()),
        '/props': (request) => check(request, key) ?? Response.json({ model_alias: alias, total_slots: 2, ...props }),
        '/v1/models': () => Response.json({ object: 'list', data: [{ id: alias, object: 'model', meta: META }] }),
        '/v1/embeddings': (request) =>
          check(request, key) ??
          Response.json({
            ...{ object: 'list', model: alias, data: [{ object: 'embedding', index: 0, embedding: [0.5, -0.5] }] },
            usage: { prompt_tokens: 4, total_tokens: 4 },
          }),
        '/v1/chat/completions': async (request) =>
          check(request, key) ?? (isHealthy() ? chat((await request.json()) as Asked, alias) : loading()),
      },
    })
  } catch {
    console.error(`couldn't bind HTTP server socket`)
    process.exit(1)
  }
}

const META = { n_ctx_train: 131_072, n_params: 494_032_768, size: 397_806_592, ftype: 'Q4_K_M' }

const loading = () =>
  Response.json({ error: { message: 'Loading model', type: 'unavailable_error', code: 503 } }, { status: 503 })

const check = (request: Request, key: string) =>
  key === '' || request.headers.get('authorization') === `Bearer ${key}`
    ? null
    : Response.json({ error: { message: 'Invalid API Key', type: 'authentication_error', code: 401 } }, { status: 401 })

interface Asked {
  stream?: boolean
  messages: { content: string }[]
}

const USAGE = { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 }
const MUCH = {
  usage: { prompt_tokens: 5, completion_tokens: 32, total_tokens: 37 },
  timings: { predicted_n: 32, predicted_per_second: 12.34 },
}

async function chat({ stream, messages }: Asked, alias: string): Promise<Response> {
  const said = messages.at(-1)?.content ?? ''
  if (said === 'hang') await new Promise(() => {})
  if (said === 'crash' && !stream) process.exit(139)
  if (said === 'fail') return Response.json({ error: { message: 'the device is gone', code: 500 } }, { status: 500 })
  const waitMs = Number(/^wait (\d+)$/.exec(said)?.[1] ?? 0)
  const report = said === 'much' ? MUCH : { usage: USAGE }
  const common = { id: 'c', created: 1, model: alias }
  const text = `I am ${alias}, ${process.pid}`
  if (!stream) {
    await Bun.sleep(waitMs)
    const message = { role: 'assistant', content: text }
    const choices = [{ index: 0, message, finish_reason: 'stop' }]
    return Response.json({ ...common, object: 'chat.completion', choices, ...report })
  }
  const frame = (delta: object, finish_reason: string | null = null) =>
    `data: ${JSON.stringify({ ...common, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }] })}\n\n`
  return new Response(
    new ReadableStream({
      type: 'direct',
      async pull(controller) {
        controller.write(frame({ role: 'assistant', content: 'I am ' }))
        await controller.flush()
        await Bun.sleep(waitMs)
        if (said === 'crash') process.exit(139)
        controller.write(frame({ content: text.slice('I am '.length) }) + frame({}, 'stop'))
        controller.write(`data: ${JSON.stringify({ ...common, choices: [], ...report })}\n\ndata: [DONE]\n\n`)
        controller.close()
      },
    }),
    { headers: { 'content-type': 'text/event-stream' } },
  )
}
