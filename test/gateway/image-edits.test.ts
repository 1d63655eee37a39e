/** `POST /v1/images/edits`: forms and JSON, as each kind of upstream accepts them, and their cost. */
import { describe, expect, test } from 'bun:test'
import { type Field, toForm } from '../support/audio-forms.ts'
import { forAllTests } from '../support/lifetime.ts'
import { errorAnswer } from '../support/upstream-answers.ts'
import { B64, startImages, USAGE } from './image-gateway.ts'

const gateway = forAllTests(startImages)
const sent = () => gateway.sent()

/** The head of a PNG of 1,024 × 1,024 pixels. */
const PNG = Buffer.concat([
  Buffer.from('\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR', 'latin1'),
  Buffer.from([0, 0, 4, 0, 0, 0, 4, 0, 8, 6, 0, 0, 0]),
])
const DATA_URL = `data:image/png;base64,${PNG.toString('base64')}`
const png = (name: string, more = '; filename="a.png"\r\nContent-Type: image/png'): Field => [name, PNG, more]
const BASE: Field[] = [
  ['prompt', 'a hat'],
  ['model', 'i/gpt'],
]
const OF_IMAGES = { ...USAGE, input_tokens: 1_023, total_tokens: 2_079 }
const answer = (usage: object = USAGE) =>
  gateway.near.script({ kind: 'whole', body: { data: [B64], size: '1024x1024', quality: 'medium', usage } })

async function edit(fields: readonly Field[]) {
  const response = await gateway.postForm(fields)
  // biome-ignore lint/suspicious/noExplicitAny: for a test to look into
  return { status: response.status, json: (await response.json()) as any }
}

const editJson = (model: string, more: object = {}) =>
  gateway.post('/v1/images/edits', { model: `i/${model}`, prompt: 'a hat', images: [{ image_url: DATA_URL }], ...more })

describe('a form', () => {
  test('reaches its upstream byte for byte except for the model, with one image, with sixteen, and with a mask', async () => {
    answer()
    const sixteen = Array.from({ length: 16 }, () =>
      png('image[]', '; filename="b.webp"\r\nContent-Type: application/octet-stream'),
    )
    for (const images of [[png('image')], sixteen, [png('image[]'), png('mask')]]) {
      const fields: Field[] = [
        ...images,
        ...BASE,
        ['size', '1024x1024'],
        ['x_new', '1'],
        ['labels[]', 'a'],
        ['labels[]', 'b'],
      ]
      expect((await edit(fields)).status).toBe(200)
      expect(sent()?.path).toBe('/v1/images/edits')
      const wanted = fields.map((field): Field => (field[0] === 'model' ? ['model', 'gpt-image-1.5'] : field))
      expect(sent()?.bytes.equals(toForm(wanted))).toBe(true)
    }
  })

  test('is charged for its image and text tokens, at their own prices', async () => {
    answer({ ...OF_IMAGES, input_tokens_details: { text_tokens: 23, image_tokens: 1_000 } })
    const { json } = await edit([...BASE, png('image')])
    // 23 × 5 + 1,000 × 8 + 1,056 × 30 thousand nano-dollars
    expect(json.usage).toMatchObject({ cost_nano_usd: 39_795_000, input_tokens: 1_023, images: 1 })
    expect(gateway.row()).toMatchObject({
      endpoint: 'image_edits',
      status: 'ok',
      cost_nano_usd: 39_795_000,
      unpriced: 0,
    })
  })

  test('loses response_format for a GPT image model, and keeps it for others', async () => {
    answer()
    const more: Field[] = [
      ['response_format', 'b64_json'],
      ['quality', 'low'],
    ]
    await edit([...BASE, ...more, png('image')])
    expect(sent()?.body).not.toContain('response_format')
    expect(sent()?.body).toContain('name="quality"')
    await edit([['model', 'i/flat'], ['prompt', 'x'], ...more, png('image')])
    expect(sent()?.body).toContain('response_format')
  })

  test("has its upstream's field names", async () => {
    answer()
    await edit([['model', 'i/infra'], ['prompt', 'x'], png('image[]'), png('image[]')])
    expect(sent()?.body.match(/name="image"/g)).toHaveLength(2)
  })

  test('may be larger than other requests', async () => {
    answer()
    const large = Buffer.alloc(40 * 1024 * 1024, 7)
    expect((await edit([...BASE, ['image', large, '; filename="a.png"']])).status).toBe(200)
    expect(sent()?.bytes.includes(large)).toBe(true)
  })

  test.each<[string, Field[], string | null]>([
    ['no image', BASE, 'missing_required_parameter'],
    ['seventeen', [...BASE, ...Array.from({ length: 17 }, () => png('image[]'))], 'array_above_max_length'],
    ['an image that is a field', [...BASE, ['image', 'text']], 'invalid_type'],
    ['an empty image', [...BASE, ['image', Buffer.alloc(0), '; filename="a.png"']], 'invalid_value'],
    ['two masks', [...BASE, png('image'), png('mask'), png('mask')], null],
    ['two models', [...BASE, png('image'), ['model', 'i/flat']], null],
    ['a file elsewhere', [...BASE, png('image'), png('prompt2')], 'unsupported_parameter'],
    ['another spelling of the model', [...BASE, png('image'), ['model[]', 'i/flat']], 'unknown_parameter'],
    ['a stored file', [...BASE, png('image'), ['file_id', 'file-1']], 'unsupported_parameter'],
    ['n that is no number', [...BASE, png('image'), ['n', 'many']], 'invalid_type'],
    ['options within the prompt', [['model', 'i/gpt'], ['prompt', '<sd_cpp_extra_args>{}'], png('image')], null],
  ])('is rejected with %s', async (_, fields, code) => {
    const before = gateway.near.requests.length
    const { status, json } = await edit(fields)
    expect([status, json.error.code ?? null]).toEqual([400, code])
    expect(gateway.near.requests.length).toBe(before)
  })
})

describe('JSON', () => {
  test('stays JSON for a GPT image model, with its URLs and its mask', async () => {
    answer()
    const more = {
      mask: { image_url: DATA_URL },
      images: [{ image_url: DATA_URL }, { image_url: 'https://x.example/a.png' }],
    }
    expect((await editJson('gpt', { ...more, response_format: 'b64_json', input_fidelity: 'high', n: 2 })).status).toBe(
      200,
    )
    expect(sent()).toMatchObject({ path: '/v1/images/edits' })
    expect(sent()?.json).toEqual({ model: 'gpt-image-1.5', prompt: 'a hat', n: 2, input_fidelity: 'high', ...more })
  })

  test('becomes a form for others, without fetching URLs', async () => {
    answer()
    expect((await editJson('flat', { size: '512x512' })).status).toBe(200)
    const { headers, body, bytes } = sent() ?? {}
    expect(headers?.['content-type']).toStartWith('multipart/form-data; boundary=')
    expect(body).toContain('name="model"\r\n\r\nflux\r\n')
    expect(body).toContain('name="image"; filename="image.png"\r\nContent-Type: image/png\r\n\r\n')
    expect(bytes?.includes(PNG)).toBe(true)
    const refused = await editJson('flat', { images: [{ image_url: 'https://x.example/a.png' }] })
    expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining('URLs of images')])
  })

  test.each([
    ['together', '/v1/images/generations', { image_url: DATA_URL, response_format: 'base64', width: 512, height: 768 }],
    [
      'xai',
      '/v1/images/edits',
      { image: { url: DATA_URL, type: 'image_url' }, aspect_ratio: '2:3', response_format: 'b64_json' },
    ],
  ])('and a form become the JSON of %s', async (model, path, fields) => {
    answer()
    await editJson(model, { size: '512x768', response_format: 'b64_json' })
    expect(sent()).toMatchObject({ path, json: { prompt: 'a hat', ...fields } })
    const form: Field[] = [
      ['model', `i/${model}`],
      ['prompt', 'a hat'],
      ['size', '512x768'],
      ['response_format', 'b64_json'],
    ]
    expect((await edit([...form, png('image', '; filename="a"')])).status).toBe(200)
    expect(sent()).toMatchObject({ path, json: { prompt: 'a hat', ...fields } })
    expect((await edit([...form, png('image'), png('image')])).status).toBe(400)
  })

  test.each([
    ['a stored file', { images: [{ file_id: 'file-1' }] }, 'images[0].file_id'],
    ['a stored mask', { mask: { file_id: 'file-1' } }, 'mask.file_id'],
    ['no image', { images: [] }, 'images'],
  ])('is rejected with %s', async (_, more, param) => {
    const response = await editJson('gpt', more)
    expect([response.status, await response.json()]).toMatchObject([400, { error: { param } }])
  })
})

test('an edit is retried elsewhere after 429 with the same bytes, but not after a broken connection', async () => {
  gateway.near.script(errorAnswer(429))
  gateway.far.script({ kind: 'whole', body: { data: [B64], usage: USAGE } })
  expect((await edit([...BASE, png('image')])).status).toBe(200)
  expect(gateway.far.requests.at(-1)?.bytes.equals(sent()?.bytes ?? Buffer.alloc(0))).toBe(true)
  const before = gateway.far.requests.length
  gateway.near.script({ kind: 'reset' })
  expect((await edit([...BASE, png('image')])).status).toBeGreaterThan(499)
  expect(gateway.far.requests.length).toBe(before)
})
