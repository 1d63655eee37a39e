/** Images requested by the official clients and Open WebUI, on an upstream as strict as OpenAI's. */
import { beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateImage } from 'ai'
import OpenAI, { BadRequestError } from 'openai'
import { orThrow } from '../../src/domain/error.ts'
import { readForm, textOf } from '../../src/domain/multipart.ts'
import type { Field } from '../support/audio-forms.ts'
import { forAllTests } from '../support/lifetime.ts'
import type { Seen } from '../support/upstream.ts'
import { type Behaviour, errorAnswer } from '../support/upstream-answers.ts'
import { B64, startImages, USAGE } from './image-gateway.ts'

const gateway = forAllTests(startImages)
const COST = 31_795_000
const model = 'i/gpt'
const prompt = 'a cat'
let client: OpenAI

beforeAll(() => {
  globalThis.AI_SDK_LOG_WARNINGS = false
  client = new OpenAI({ baseURL: gateway.app.baseUrl, apiKey: gateway.secret, maxRetries: 0 })
})
beforeEach(() => gateway.near.script(strict))

const KNOWN =
  /^(?:model|prompt|n|size|quality|background|moderation|output_format|output_compression|stream|partial_images|input_fidelity|image(?:\[\])?|mask|images)$/
const FACTS = { size: '1024x1024', quality: 'medium', output_format: 'png', background: 'opaque' }

function fieldsOf({ json, bytes, headers }: Seen): Record<string, unknown> {
  if (json) return json
  const form = orThrow(readForm(bytes, headers['content-type'] ?? ''))
  return Object.fromEntries(form.parts.map((part) => [part.name, textOf(form, part)]))
}

/** Only GPT image models, which reject unknown fields. */
function strict(seen: Seen): Behaviour {
  const fields = fieldsOf(seen)
  const unknown = Object.keys(fields).find((name) => !KNOWN.test(name))
  if (unknown) return errorAnswer(400, `Unknown parameter: '${unknown}'.`)
  if (fields.model !== 'gpt-image-1.5') return errorAnswer(404, 'The model does not exist')
  if (`${fields.stream}` !== 'true')
    return { kind: 'whole', body: { created: 1_700_000_000, data: [B64], ...FACTS, usage: USAGE } }
  const kind = seen.path.endsWith('/edits') ? 'image_edit' : 'image_generation'
  const steps = [
    { type: `${kind}.partial_image`, ...B64, ...FACTS, created_at: 1_700_000_000, partial_image_index: 0 },
    { type: `${kind}.completed`, ...B64, ...FACTS, created_at: 1_700_000_000, usage: USAGE },
  ].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
  return { kind: 'stream', steps, end: 'eof' }
}

const file = (name = 'cat.png') => new File(['png'], name, { type: 'image/png' })

describe("OpenAI's client", () => {
  test('generates an image, and edits one and several with a mask', async () => {
    const made = await client.images.generate({ model, prompt, size: '1024x1024', quality: 'medium' })
    expect(made).toMatchObject({ data: [B64], usage: { output_tokens: 1_056 }, ...FACTS })
    expect(await client.images.edit({ model, prompt, image: file() })).toMatchObject({ data: [B64] })
    const many = { model, prompt, image: [file(), file('b.png')], mask: file('m.png'), input_fidelity: 'high' as const }
    expect(await client.images.edit(many)).toMatchObject({ data: [B64] })
    expect(gateway.sent()?.body.match(/name="image\[\]"/g)).toHaveLength(2)
    expect((await gateway.app.settled(3)).map((row) => row.cost_nano_usd)).toEqual([COST, COST, COST])
  })

  test('gets the streams of a new and an edited image', async () => {
    const made = await client.images.generate({ model, prompt, stream: true, partial_images: 1 })
    const edited = await client.images.edit({ model, prompt, image: file(), stream: true, partial_images: 1 })
    for (const [stream, kind] of [
      [made, 'image_generation'],
      [edited, 'image_edit'],
    ] as const) {
      const events: { type: string; usage?: object }[] = []
      for await (const event of stream) events.push(event)
      expect(events.map(({ type }) => type)).toEqual([`${kind}.partial_image`, `${kind}.completed`])
      expect(events.at(-1)).toMatchObject({ ...B64, ...FACTS, usage: { ...USAGE, cost_nano_usd: COST } })
    }
  })

  test('gets rejections as its own errors', async () => {
    const refusal = await client.images.generate({ model, prompt, style: 'vivid' }).then(null, (error) => error)
    expect(refusal).toBeInstanceOf(BadRequestError)
    gateway.near.script(errorAnswer(400, 'Your request was rejected by the safety system.'))
    const early = await client.images.generate({ model, prompt, stream: true }).then(null, (error) => error)
    expect([early.status, early.message]).toEqual([400, expect.stringContaining('safety system')])
  })
})

describe("Vercel's AI SDK", () => {
  test('generates and edits images, although it sends response_format to unknown model names', async () => {
    const options = { baseURL: gateway.app.baseUrl, apiKey: gateway.secret }
    const models = [
      createOpenAI(options).image(model),
      createOpenAICompatible({ ...options, name: 'tollgate' }).imageModel(model),
    ]
    for (const each of models) {
      const { image } = await generateImage({ model: each, prompt, maxRetries: 0 })
      expect(image.base64).toBe(B64.b64_json)
      const images = [Buffer.from('one'), Buffer.from('two')]
      const edited = await generateImage({ model: each, prompt: { text: prompt, images }, maxRetries: 0 })
      expect(edited.image.base64).toBe(B64.b64_json)
      expect(gateway.sent()?.path).toBe('/v1/images/edits')
    }
  })
})

test('Open WebUI generates and edits images', async () => {
  const made = { model, prompt, n: 1, size: '1024x1024', response_format: 'b64_json' }
  expect(await (await gateway.post('/v1/images/generations', made)).json()).toMatchObject({ data: [B64] })
  const png = Buffer.from('png')
  const edit: Field[] = [
    ...([
      ['model', model],
      ['prompt', prompt],
      ['n', '1'],
      ['size', '1024x1024'],
      ['response_format', 'b64_json'],
    ] as const),
    ...['image[]', 'image[]'].map((name): Field => [name, png, '; filename="a.png"\r\nContent-Type: image/png']),
  ]
  expect(await (await gateway.postForm(edit)).json()).toMatchObject({ data: [B64] })
})
