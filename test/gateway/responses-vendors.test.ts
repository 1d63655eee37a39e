/** Agent work over the Responses API on strict upstreams of three vendors; each continues what another began. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { inTurn, strictly } from '../support/anthropic-upstream.ts'
import { CREDENTIAL, startApp, type TestApp } from '../support/app.ts'
import { createGemini } from '../support/gemini-upstream.ts'
import { type Script, type ScriptedUpstream, startUpstream } from '../support/upstream.ts'
import { toDelta } from '../support/upstream-answers.ts'
import { type Asker, createAsker } from './responses.ts'

const PATCH = '*** Begin Patch'
/** Tools under the models' names: look, then look and patch at once. */
const LOOK = { name: 'files__look', input: { path: 'a.py' } }
const APPLY = { name: 'apply_patch', input: { input: PATCH } }
const STEPS = [[LOOK], [LOOK, APPLY]]

const anthropic: Script = strictly(
  inTurn(
    ...STEPS.map((calls, step) => ({
      blocks: [
        { thought: `Thought ${step}` },
        ...(step === 0 ? [{ text: 'Let me look.' }] : []),
        ...calls.map(({ name, input }, at) => ({ call: name, input, id: `toolu_${step}_${at}` })),
      ],
    })),
    { blocks: [{ thought: 'At last' }, { text: 'All done.' }] },
  ),
  { key: CREDENTIAL },
)

const toGemini = () =>
  createGemini(
    (step) => {
      const calls = STEPS[step]
      if (!calls) return { reasoning: 'At last', text: 'All done.' }
      return { reasoning: `Thought ${step}`, calls, ...(step === 0 ? { text: 'Let me look.' } : {}) }
    },
    { key: CREDENTIAL },
  )

const openai: Script = ({ json }) => {
  const step = ((json?.messages ?? []) as { role: string; tool_calls?: unknown }[]).filter(
    (one) => one.tool_calls,
  ).length
  const calls = STEPS[step]
  const tool_calls = calls?.map(({ name, input }, index) => ({
    index,
    id: `call_${step}_${index}`,
    type: 'function',
    function: { name, arguments: JSON.stringify(input) },
  }))
  const said = tool_calls
    ? { reasoning: `Thought ${step}`, tool_calls, ...(step === 0 ? { content: 'Let me look.' } : {}) }
    : { reasoning: 'At last', content: 'All done.' }
  const usage = { prompt_tokens: 20, completion_tokens: 4, total_tokens: 24 }
  if (json?.stream !== true) {
    const choices = [
      { index: 0, message: { role: 'assistant', ...said }, finish_reason: tool_calls ? 'tool_calls' : 'stop' },
    ]
    return { kind: 'whole', body: { id: 'x', object: 'chat.completion', created: 1, model: 'o', choices, usage } }
  }
  return {
    kind: 'stream',
    steps: [toDelta(said), toDelta({}, tool_calls ? 'tool_calls' : 'stop'), { choices: [], usage }],
  }
}

const VENDORS = ['openai', 'anthropic', 'gemini'] as const
const FACTS =
  'context_length: 100000, max_output_length: 8000, input_modalities: [text, image], output_modalities: [text], supported_features: [tools, reasoning], pricing: [{ prompt: "0.000001", completion: "0.000002" }]'

let app: TestApp
let upstreams: ScriptedUpstream[]
let asker: Asker
beforeAll(async () => {
  const started = await Promise.all([openai, anthropic, toGemini().script].map((script) => startUpstream(script)))
  upstreams = started
  const urls = started.map(({ url }, at) => (VENDORS[at] === 'gemini' ? `${url}beta` : url))
  app = await startApp({
    catalog: `
version: 1
upstreams:
${VENDORS.map((name, at) => `  ${name}: { dialect: ${name}, base_url: "${urls[at]}", api_key: \${UPSTREAM_KEY} }`).join('\n')}
models:
${VENDORS.map((name) => `  acme/${name}: { name: M, ${FACTS}, routes: [{ upstream: ${name}, model: v1 }] }`).join('\n')}
`,
  })
  asker = createAsker(app.baseUrl, app.key())
})
afterAll(async () => {
  await Promise.all(upstreams.map((upstream) => upstream.stop()))
  await app.stop()
})

const BEYOND = { beyond: ['custom_tool_call'] }

interface Item {
  type: string
  call_id?: string
  name?: string
  namespace?: string
  summary?: { text: string }[]
  content?: { text: string }[]
}

const ASK = {
  store: false,
  include: ['reasoning.encrypted_content'],
  reasoning: { effort: 'high', summary: 'auto' },
  tools: [
    {
      type: 'namespace',
      name: 'files',
      tools: [
        { type: 'function', name: 'look', parameters: { type: 'object', properties: { path: { type: 'string' } } } },
      ],
    },
    { type: 'custom', name: 'apply_patch' },
    { type: 'web_search', external_web_access: false },
  ],
}

/** Runs all steps, each with the next model; returns all outputs. */
async function work(models: readonly string[], isStream: boolean): Promise<Item[]> {
  const input: object[] = [{ role: 'user', content: 'Make a.py say hello' }]
  const said: Item[] = []
  for (let step = 0; step < 5; step++) {
    const body = { ...ASK, model: models[step % models.length], input }
    const response = isStream ? (await asker.stream(body, BEYOND)).response : await asker.ask(body, BEYOND)
    const output = response.output as Item[]
    said.push(...output)
    const results = output.flatMap(({ type, call_id }) =>
      type === 'function_call' || type === 'custom_tool_call'
        ? [{ type: `${type}_output`, call_id, output: 'ok' }]
        : [],
    )
    if (results.length === 0) break
    input.push(...output, ...results)
  }
  return said
}

const summaryOf = ({ type, name, namespace, summary, content }: Item) =>
  [type, namespace, name, summary?.map(({ text }) => text).join(), content?.map(({ text }) => text).join()]
    .filter(Boolean)
    .join(' ')

const SAID = [
  'reasoning Thought 0',
  'message Let me look.',
  'function_call files look',
  'reasoning Thought 1',
  'function_call files look',
  'custom_tool_call apply_patch',
  'reasoning At last',
  'message All done.',
]

/** A signature after its content is an item of its own, without text. */
const said = (items: readonly Item[]) => items.map(summaryOf).filter((text) => text !== 'reasoning')

describe.each(VENDORS)('the work of an agent with %s', (vendor) => {
  for (const isStream of [true, false])
    test(isStream ? 'streamed' : 'whole', async () => {
      const items = await work([`acme/${vendor}`], isStream)
      expect(said(items)).toEqual(SAID)
      expect(items.find(({ type }) => type === 'custom_tool_call')).toMatchObject({ input: PATCH })
    })
})

const PAIRS = VENDORS.flatMap((one) => VENDORS.flatMap((other) => (one === other ? [] : [[one, other] as const])))

test.each(PAIRS)('a task begun by %s continues with %s, and returns', async (one, other) => {
  const items = await work([`acme/${one}`, `acme/${other}`], true)
  expect(said(items)).toEqual(SAID)
})
