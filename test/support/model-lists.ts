/** Providers' model lists, good and broken. */
import type { Seen } from './upstream.ts'
import type { Behaviour } from './upstream-answers.ts'

export const listed = (body: object | string, status = 200, headers: Record<string, string> = {}): Behaviour => ({
  kind: 'whole',
  status,
  headers,
  body,
})

export const openaiList = (...models: (string | object)[]): Behaviour =>
  listed({ object: 'list', data: models.map((one) => (typeof one === 'string' ? { id: one, object: 'model' } : one)) })

const yes = { supported: true }
const no = { supported: false }

/** As in `/v1/models` of Anthropic (`ModelInfo` of @anthropic-ai/sdk). */
export const claude = (id: string, more: object = {}) => ({
  type: 'model',
  id,
  display_name: 'Claude Test',
  created_at: '2026-04-16T00:00:00Z',
  lifecycle: 'active',
  max_input_tokens: 300_000,
  max_tokens: 64_000,
  capabilities: {
    batch: yes,
    citations: yes,
    code_execution: no,
    image_input: yes,
    pdf_input: no,
    structured_outputs: yes,
    effort: { supported: true, low: yes, medium: yes, high: yes, xhigh: no, max: yes },
    thinking: { supported: true, types: { adaptive: yes, enabled: no, disabled: no } },
  },
  ...more,
})

export const anthropicList = (...models: object[]): Behaviour =>
  listed({ data: models, has_more: false, first_id: null, last_id: null })

export const gemini = (name: string, more: object = {}) => ({
  name: `models/${name}`,
  displayName: 'Gemini Test',
  inputTokenLimit: 500_000,
  outputTokenLimit: 30_000,
  supportedGenerationMethods: ['generateContent', 'countTokens'],
  thinking: true,
  ...more,
})

/** Refuses any other key. */
export const onlyFor =
  (header: string, value: string, answer: Behaviour, refusal: Behaviour) =>
  ({ headers }: Seen): Behaviour =>
    headers[header] === value ? answer : refusal
