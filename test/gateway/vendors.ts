/**
 * A gateway between strict upstreams of three vendors, two each. Model `FROM/TO` calls the first of FROM, and on
 * failure the second of TO.
 */
import { expect } from 'bun:test'
import { findRefusal } from '../support/anthropic-rules.ts'
import { strictly } from '../support/anthropic-upstream.ts'
import { CREDENTIAL, startApp, type TestApp } from '../support/app.ts'
import { checkHeaders, checkStream, checkWhole } from '../support/contract.ts'
import { type Frame, toFrames } from '../support/frames.ts'
import { createGemini } from '../support/gemini-upstream.ts'
import { findUnknown, STRICT } from '../support/strict-openai.ts'
import { type Script, type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { errorAnswer, toDelta } from '../support/upstream-answers.ts'

export const VENDORS = ['openai', 'anthropic', 'gemini'] as const
export type Vendor = (typeof VENDORS)[number]

/** Call IDs a strict OpenAI accepts; Mistral's older models need another form. */
export const IDS = { openai: /^.{1,40}$/, mistral: /^[a-zA-Z0-9]{9}$/ } as const

const TOKENS = { prompt_tokens: 20, completion_tokens: 4 }

/** Two calls at once until there are so many results, then a text. */
const isDone = (json: unknown, results: RegExp) => [...JSON.stringify(json).matchAll(results)].length >= 4

export const openaiScript =
  (rules: keyof typeof IDS, refused: string[], calls: readonly string[]): Script =>
  ({ json, index }) => {
    const wrong = findUnknown(json, STRICT[rules] as (typeof STRICT)[string]) ?? findWrongIds(json, IDS[rules])
    const marks = JSON.stringify(json).includes('cache_control') ? 'cache_control is unsupported' : null
    if (wrong ?? marks) {
      refused.push(wrong ?? marks ?? '')
      return errorAnswer(400, wrong ?? marks ?? '')
    }
    const done = isDone(json, /"role":"tool"/g)
    const tool_calls = calls.map((name, at) => ({
      index: at,
      id: `call:${index}.${at}/${'x'.repeat(40)}`,
      type: 'function',
      function: { name, arguments: '{"city":"Rome"}' },
    }))
    const details = [
      { type: 'reasoning.text', text: 'Hm', signature: `by-openai-${index}`, format: 'anthropic-claude-v1', index: 0 },
    ]
    const said = {
      role: 'assistant',
      content: done ? 'Sunny.' : null,
      ...(done ? {} : { tool_calls, reasoning: 'Hm', reasoning_details: details }),
    }
    const finish = done ? 'stop' : 'tool_calls'
    const usage = { ...TOKENS, total_tokens: 24 }
    if (json?.stream === true)
      return {
        kind: 'stream',
        steps: [toDelta(said), toDelta({}, finish), { choices: [], usage, object: 'chat.completion.chunk' }],
      }
    const choices = [{ index: 0, message: said, finish_reason: finish }]
    return { kind: 'whole', body: { id: 'x', object: 'chat.completion', created: 1, model: 'o', choices, usage } }
  }

/** IDs with a wrong shape, duplicates, or without a result. */
export function findWrongIds(json: Record<string, unknown> | null, taken: RegExp): string | null {
  const messages = (json?.messages ?? []) as { tool_calls?: { id: string }[]; tool_call_id?: string }[]
  const ids = messages.flatMap(({ tool_calls: calls }) => (calls ?? []).map(({ id }) => id))
  const answered = messages.flatMap(({ tool_call_id: id }) => id ?? [])
  const odd = ids.find((id) => !taken.test(id))
  if (odd !== undefined) return `Tool call id was ${odd} but must be ${taken}`
  if (new Set(ids).size < ids.length) return 'ids of calls must be unique'
  return JSON.stringify(ids) === JSON.stringify(answered) ? null : 'results do not belong to the calls'
}

export interface Vendors {
  app: TestApp
  upstreams: Record<string, ScriptedUpstream>
  /** What each has refused. */
  refused: Record<string, string[]>
  play(): void
  resume(name: string): void
  /** Checks the answer; returns its message as a client sends it back, and who answered. */
  ask(body: Record<string, unknown>): Promise<{ message: Record<string, unknown>; upstream: string | null }>
  stop(): Promise<void>
}

/** @param anthropic more settings of Anthropic's upstreams, such as `passthrough: false`. */
export async function startVendors(calls: readonly string[] = ['weather', 'clock'], anthropic = ''): Promise<Vendors> {
  const upstreams: Record<string, ScriptedUpstream> = {}
  const refused: Record<string, string[]> = {}
  const parts: Record<string, Script> = {}
  const names = VENDORS.flatMap((vendor) => [`${vendor}-1`, `${vendor}-2`])
  for (const name of [...names, 'mistral']) upstreams[name] = await startUpstream()
  const lines = [...names, 'mistral'].map((name) => {
    const { url } = upstreams[name] as ScriptedUpstream
    const vendor = name.split('-')[0] as string
    const preset = vendor === 'gemini' ? 'google' : vendor
    // The OpenAI here offers chat completions only.
    const settings = vendor === 'openai' ? 'passthrough: false' : vendor === 'anthropic' ? anthropic : ''
    const more = settings === '' ? '' : `, ${settings}`
    return `  ${name}: { preset: ${preset}, base_url: "${vendor === 'gemini' ? `${url}beta` : url}", api_key: \${KEY}${more} }`
  })
  const facts =
    'name: M, context_length: 100000, max_output_length: 4000, input_modalities: [text, image], output_modalities: [text], supported_features: [tools, structured_outputs, reasoning]'
  const route = (name: string, priority: number) =>
    `{ upstream: ${name}, model: m, priority: ${priority}, pricing: [{ prompt: "0.00000${priority + 1}", completion: "0.00000${priority + 3}" }] }`
  const models = VENDORS.flatMap((from) => [
    ...VENDORS.map((to) => `  ${from}/${to}: { ${facts}, routes: [${route(`${from}-1`, 0)}, ${route(`${to}-2`, 1)}] }`),
    `  ${from}/mistral: { ${facts}, routes: [${route(`${from}-1`, 0)}, ${route('mistral', 1)}] }`,
  ])
  const app = await startApp({
    catalog: `version: 1\nupstreams:\n${lines.join('\n')}\nmodels:\n${models.join('\n')}\n`,
    environment: { KEY: CREDENTIAL },
  })
  const key = app.key()
  return {
    app,
    upstreams,
    refused,
    play() {
      app.pass(24 * 60 * 60_000)
      for (const name of [...names, 'mistral']) {
        refused[name] = []
        if (name.startsWith('openai')) parts[name] = openaiScript('openai', refused[name], calls)
        if (name === 'mistral') parts[name] = openaiScript('mistral', refused[name], calls)
        if (name.startsWith('gemini')) {
          const gemini = createGemini(
            (_, body) => (isDone(body, /"functionResponse"/g) ? { text: 'Sunny.' } : toGemini(calls)),
            {
              key: CREDENTIAL,
            },
          )
          refused[name] = gemini.refused
          parts[name] = gemini.script
        }
        if (name.startsWith('anthropic')) parts[name] = anthropicScript(name, refused[name], calls)
        upstreams[name]?.script(parts[name] as Script)
      }
    },
    resume: (name) => {
      app.pass(24 * 60 * 60_000)
      upstreams[name]?.script(parts[name] as Script)
    },
    async ask(body) {
      const response = await fetch(`${app.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      const text = await response.text()
      expect({ status: response.status, text, refused }).toMatchObject({ status: 200 })
      checkHeaders(body.stream ? 'stream' : 'whole', response.headers)
      const upstream = response.headers.get('x-tollgate-upstream')
      if (!body.stream) {
        checkWhole(text)
        return { message: JSON.parse(text).choices[0].message, upstream }
      }
      const { choices } = checkStream(text, { includeUsage: false })
      return { message: gather(toFrames(text).frames, choices[0]), upstream }
    },
    async stop() {
      for (const upstream of Object.values(upstreams)) await upstream.stop()
      await app.stop()
    },
  }
}

const toGemini = (calls: readonly string[]) => ({
  reasoning: 'Hm',
  calls: calls.map((name, at) => ({ name, input: { city: 'Rome' }, ...(at === 0 ? { id: 'a/b' } : {}) })),
})

function anthropicScript(name: string, refused: string[], calls: readonly string[]): Script {
  const play = strictly(
    ({ json, index }) =>
      isDone(json, /"tool_result"/g)
        ? { blocks: [{ text: 'Sunny.' }] }
        : {
            blocks: [
              { thought: `Hm of ${name}` },
              { redacted: 'UkVE' },
              ...calls.map((call, at) => ({ call, input: { city: 'Rome' }, id: `toolu_${index}_${at}` })),
            ],
          },
    { key: CREDENTIAL },
  )
  return (seen) => {
    const wrong = findRefusal(seen.json, ABLE, seen.headers['anthropic-version'] ?? '')
    if (wrong) refused.push(wrong)
    return typeof play === 'function' ? play(seen) : play
  }
}

const ABLE = {
  thinking: 'adaptive',
  off: true,
  sampling: true,
  efforts: ['low', 'medium', 'high', 'max'],
  maxTokens: 64_000,
} as const

/** The message of a client that keeps every field. */
function gather(frames: readonly Frame[], choice: { content: string; toolCalls: unknown[] } | undefined) {
  const details = frames.flatMap(({ choices = [] }) => choices.flatMap(({ delta }) => delta.reasoning_details ?? []))
  return {
    role: 'assistant',
    content: choice?.content || null,
    ...(choice?.toolCalls.length ? { tool_calls: choice.toolCalls } : {}),
    ...(details.length > 0 ? { reasoning_details: details } : {}),
  }
}
