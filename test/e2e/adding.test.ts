/** Providers added by one command each: from an empty folder to correctly billed responses. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import { strictly } from '../support/anthropic-upstream.ts'
import { BINARY, createWorkplace, runBinary, type Workplace } from '../support/binary.ts'
import { createGemini } from '../support/gemini-upstream.ts'
import { anthropicList, claude, gemini, listed, onlyFor, openaiList } from '../support/model-lists.ts'
import { until } from '../support/until.ts'
import { type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { wholeAnswer } from '../support/upstream-answers.ts'

const KEYS = {
  OPENAI_API_KEY: 'sk-openai-0123456789',
  ANTHROPIC_API_KEY: 'sk-ant-0123456789',
  GEMINI_API_KEY: 'AIza0123456789',
}
const REFUSED = listed({ error: { message: 'no such key' } }, 401)

let place: Workplace
let upstreams: ScriptedUpstream[]
beforeEach(() => {
  place = createWorkplace()
  upstreams = []
})
afterEach(async () => {
  await Promise.all(upstreams.map((one) => one.stop()))
  await place.close()
})

async function start(...script: Parameters<typeof startUpstream>): Promise<ScriptedUpstream> {
  const upstream = await startUpstream(...script)
  upstreams.push(upstream)
  return upstream
}

const openaiUsage = { prompt_tokens: 1_000, completion_tokens: 100, prompt_tokens_details: { cached_tokens: 400 } }
const startOpenai = async () => {
  const openai = await start(
    onlyFor('authorization', `Bearer ${KEYS.OPENAI_API_KEY}`, wholeAnswer({ usage: openaiUsage }), REFUSED),
  )
  openai.scriptProbes(
    onlyFor('authorization', `Bearer ${KEYS.OPENAI_API_KEY}`, openaiList('gpt-4o-mini', 'whisper-1'), REFUSED),
  )
  return openai
}

test('three commands on an empty folder add three providers that respond, and are charged by their own prices', async () => {
  const openai = await startOpenai()
  const usage = {
    input_tokens: 100,
    cache_read_input_tokens: 50,
    cache_creation_input_tokens: 20,
    cache_creation: { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 0 },
    output_tokens: 10,
  }
  const anthropic = await start(strictly({ blocks: [{ text: 'Hello.' }], usage }, { key: KEYS.ANTHROPIC_API_KEY }))
  anthropic.scriptProbes(
    onlyFor('x-api-key', KEYS.ANTHROPIC_API_KEY, anthropicList(claude('claude-sonnet-4-6')), REFUSED),
  )
  const google = createGemini(() => ({ text: 'Hello.' }), { key: KEYS.GEMINI_API_KEY, thinks: 'budget', signs: false })
  const gooseberry = await start(google.script)
  gooseberry.scriptProbes(
    onlyFor('x-goog-api-key', KEYS.GEMINI_API_KEY, listed({ models: [gemini('gemini-2.5-flash')] }), REFUSED),
  )

  const server = await place.serve(['--first-key'], { environment: KEYS })
  const add = (name: string, url: string) =>
    runBinary(['upstreams', 'add', name, '--base-url', url, '--yes', '--data', join(place.folder, 'data')], {
      cwd: place.folder,
      environment: KEYS,
    })
  expect(await add('openai', openai.url)).toMatchObject({ code: 0, stderr: expect.not.stringContaining('cannot use') })
  expect(await add('anthropic', anthropic.url)).toMatchObject({ code: 0, stderr: '' })
  expect(await add('google', `${gooseberry.url}beta`)).toMatchObject({ code: 0, stderr: '' })

  const ask = async (model: string) => {
    const body = JSON.stringify({ model, max_tokens: 100, messages: [{ role: 'user', content: 'Hello' }] })
    const headers = { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' }
    const response = await fetch(`${server.baseUrl}/chat/completions`, { method: 'POST', headers, body })
    const answer: unknown = await response.json()
    return { status: response.status, answer }
  }
  const charged = (nanoUsd: number) => ({ status: 200, answer: { usage: { cost_nano_usd: nanoUsd } } })
  // USD per million: input 0.15, cached 0.075, output 0.60.
  expect(await ask('openai/gpt-4o-mini')).toMatchObject(charged(600 * 150 + 400 * 75 + 100 * 600))
  // USD per million: input 3, cache read 0.30, cache write 3.75, output 15.
  expect(await ask('anthropic/claude-sonnet-4-6')).toMatchObject(
    charged(100 * 3_000 + 50 * 300 + 20 * 3_750 + 10 * 15_000),
  )
  // USD per million: input 0.30, cached 0.03, output 2.50, reasoning included.
  expect(await ask('google/gemini-2.5-flash')).toMatchObject(charged(32 * 300 + 8 * 30 + 12 * 2_500))
})

/** Types input into a terminal once the command has prompted. */
async function typed(words: string[], answers: [after: string, text: string][]) {
  const pieces: string[] = []
  const utf8 = new TextDecoder()
  const seen = () => pieces.join('')
  const child = Bun.spawn([BINARY, ...words, '--data', join(place.folder, 'data')], {
    cwd: place.folder,
    env: { PATH: process.env.PATH ?? '' },
    terminal: { data: (_, bytes) => void pieces.push(utf8.decode(bytes, { stream: true })) },
  })
  for (const [after, text] of answers) {
    await until(after, () => seen().includes(after))
    child.terminal?.write(text)
  }
  return { code: await child.exited, seen: seen() }
}

test('at a terminal, the key is prompted for and not shown, and nothing is added before a yes', async () => {
  const openai = await startOpenai()
  const server = await place.serve(['--first-key'])
  const words = ['upstreams', 'add', 'openai', '--base-url', openai.url]
  const question = 'API key for OpenAI (hidden): '
  const key = KEYS.OPENAI_API_KEY

  const left = await typed(words, [[question, 'sk-half\u0003']])
  expect(left.code).toBe(1)
  const refused = await typed(words, [
    [question, `${key}\r`],
    ['Add this? [Y/n] ', 'no\r'],
  ])
  expect(refused.code).toBe(1)
  expect(refused.seen).toContain('No changes made.')
  // Pasted, with a corrected typo.
  const made = await typed(words, [
    [question, `\u001b[200~${key}x\u001b[201~\u007f\r`],
    ['Add this? [Y/n] ', '\r'],
  ])
  expect(made.code).toBe(0)
  expect(made.seen).toContain('Added openai with 2 models.')
  for (const { seen } of [left, refused, made]) {
    expect(seen).not.toContain('sk-')
    expect(seen).toContain(question)
  }
  const response = await fetch(`${server.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'openai/gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }] }),
  })
  expect(response.status).toBe(200)
})

test('a variable that the running server lacks is reported at once', async () => {
  const openai = await startOpenai()
  await place.serve()
  const { code, stderr } = await runBinary(
    ['upstreams', 'add', 'openai', '--base-url', openai.url, '--yes', '--data', join(place.folder, 'data')],
    { cwd: place.folder, environment: KEYS },
  )
  expect(code).toBe(0)
  expect(stderr).toContain(
    "note: the running server can't use openai: the variable OPENAI_API_KEY is not set on the server. Restart it with the variable, or store the key: tollgate upstreams edit openai --key",
  )
})
