/** Image providers whose requests differ from OpenAI's: requests, responses, and cost. */
import { describe, expect, test } from 'bun:test'
import { forAllTests } from '../support/lifetime.ts'
import { B64, startImages } from './image-gateway.ts'

const gateway = forAllTests(startImages)
const IMAGE = 'data:image/png;base64,cG5n'

async function ask(model: string, answer: object, more: object = {}) {
  gateway.near.script({ kind: 'whole', body: answer })
  const path = 'images' in more ? '/v1/images/edits' : '/v1/images/generations'
  const response = await gateway.post(path, { model: `i/${model}`, prompt: 'a cat', ...more })
  // biome-ignore lint/suspicious/noExplicitAny: for a test to look into
  return { status: response.status, headers: response.headers, json: (await response.json()) as any }
}
const sent = () => gateway.sent()

test.each<[string, string, object, object, object]>([
  [
    ...(['together', '/v1/images/generations'] as const),
    { model: 'flux-t', prompt: 'a cat', n: 2, width: 1024, height: 768, response_format: 'base64', steps: 4 },
    { id: 'x', object: 'list', data: [{ index: 0, ...B64 }] },
    { n: 2, size: '1024x768', quality: 'high', steps: 4 },
  ],
  [
    ...(['xai', '/v1/images/generations'] as const),
    { model: 'grok', prompt: 'a cat', aspect_ratio: '16:9', response_format: 'b64_json', resolution: '2k' },
    { data: [B64] },
    { size: '1920x1080', quality: 'high', resolution: '2k' },
  ],
  [
    ...(['fireworks', '/v1/workflows/accounts/fireworks/models/flux/text_to_image'] as const),
    { prompt: 'a cat', aspect_ratio: '3:2', seed: 7 },
    { id: 'x', base64: ['data:image/jpeg;base64,aGk='], finishReason: 'SUCCESS', seed: 7 },
    { size: '1536x1024', seed: 7 },
  ],
])('%s is called in its own format, and its image returns as base64', async (model, path, wanted, answer, more) => {
  const { status, json } = await ask(model, answer, { response_format: 'b64_json', ...more })
  expect([status, json.data]).toEqual([200, [B64]])
  expect(sent()).toMatchObject({ path })
  expect(sent()?.json).toEqual({ ...wanted })
  expect(gateway.row()).toMatchObject({ cost_nano_usd: 25_000_000, images: 1, counted_by: 'answer', unpriced: 0 })
})

describe('a model of Gemini', () => {
  const usageMetadata = {
    ...{ promptTokenCount: 300, candidatesTokenCount: 1_130, thoughtsTokenCount: 200, totalTokenCount: 1_630 },
    promptTokensDetails: [
      { modality: 'TEXT', tokenCount: 42 },
      { modality: 'IMAGE', tokenCount: 258 },
    ],
    candidatesTokensDetails: [{ modality: 'IMAGE', tokenCount: 1_120 }],
  }
  const part = (data: string, more: object = {}) => ({ inlineData: { mimeType: 'image/png', data }, ...more })
  const answerOf = (...parts: object[]) => ({
    candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP' }],
    usageMetadata,
  })

  test("generates an image in OpenAI's format, charged by each kind of token", async () => {
    const answer = answerOf({ text: 'Here:' }, part('ZHJhZnQ=', { thought: true }), part('aGk='))
    const { json } = await ask('gemini', answer, { size: '1536x1024', quality: 'high', response_format: 'b64_json' })
    expect(json.data).toEqual([B64])
    expect(sent()).toMatchObject({ path: '/v1/models/gemini-3-pro-image:generateContent' })
    expect(sent()?.json).toEqual({
      contents: [{ role: 'user', parts: [{ text: 'a cat' }] }],
      generationConfig: { responseModalities: ['TEXT', 'IMAGE'], imageConfig: { aspectRatio: '3:2' } },
    })
    // 42 × 5 + 258 × 8 + 1,330 × 30 thousand nano-dollars
    expect(gateway.row()).toMatchObject({ cost_nano_usd: 42_174_000, image_completion_tokens: 1_120, estimated: 0 })
  })

  test('edits images of a form and of JSON, inline', async () => {
    const parts = [{ inlineData: { mimeType: 'image/png', data: 'cG5n' } }, { text: 'a cat' }]
    expect((await ask('gemini', answerOf(part('aGk=')), { images: [{ image_url: IMAGE }] })).status).toBe(200)
    expect(sent()?.json).toMatchObject({ contents: [{ parts }] })
    const form = await gateway.postForm([
      ...([
        ['model', 'i/gemini'],
        ['prompt', 'a cat'],
        ['size', '2048x2048'],
      ] as const),
      ['image', Buffer.from('png'), '; filename="a.png"\r\nContent-Type: application/octet-stream'],
    ])
    expect(form.status).toBe(200)
    expect(sent()?.json).toMatchObject({
      contents: [{ parts }],
      generationConfig: { imageConfig: { aspectRatio: '1:1', imageSize: '2K' } },
    })
  })

  test('streams one event, since it has no partial images', async () => {
    gateway.near.script({ kind: 'whole', body: answerOf(part('aGk=')) })
    const response = await gateway.post('/v1/images/generations', { model: 'i/gemini', prompt: 'a cat', stream: true })
    expect((await response.text()).match(/^event: .*$/gm)).toEqual(['event: image_generation.completed'])
  })

  test.each([
    ['n', { n: 2 }, 'n'],
    ['a mask', { images: [{ image_url: IMAGE }], mask: { image_url: IMAGE } }, 'mask'],
    ['an image behind a URL', { images: [{ image_url: 'http://127.0.0.1/a.png' }] }, 'images'],
  ])('rejects %s with an explanation', async (_, more, param) => {
    const before = gateway.near.requests.length
    const { status, json } = await ask('gemini', {}, more)
    expect([status, json.error.param, json.error.message]).toEqual([
      400,
      param,
      expect.stringMatching(/^This model .+\.$/),
    ])
    expect(gateway.near.requests.length).toBe(before)
  })

  test.each([
    ['a refused prompt', { promptFeedback: { blockReason: 'PROHIBITED_CONTENT' } }, 400],
    ['a refused image', { candidates: [{ finishReason: 'IMAGE_SAFETY' }] }, 400],
    ['text alone', answerOf({ text: 'No.' }), 502],
  ])('reports %s as an error', async (_, answer, wanted) => {
    const { status, json } = await ask('gemini', answer)
    expect([status, json.error.code]).toEqual([wanted, wanted === 400 ? 'moderation_blocked' : expect.anything()])
  })
})

test('Imagen generates several images, each charged', async () => {
  const predictions = [1, 2].map(() => ({ bytesBase64Encoded: 'aGk=', mimeType: 'image/png' }))
  const { json } = await ask('imagen', { predictions }, { n: 2, size: '1024x1024' })
  expect(json.data).toEqual([B64, B64])
  expect(sent()).toMatchObject({
    path: '/v1/models/imagen-4:predict',
    json: { instances: [{ prompt: 'a cat' }], parameters: { sampleCount: 2, aspectRatio: '1:1' } },
  })
  expect(gateway.row()).toMatchObject({ cost_nano_usd: 50_000_000, images: 2 })
})
