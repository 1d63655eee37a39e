/** Invalid requests of the chaos test, and the refusal that each must get. Pure. */
import { MAX_OUTPUT } from './catalog.ts'
import { pick, type Refusal, type RequestPlan, toBody, type Unwritten } from './plan.ts'

const MISTAKES = {
  bad_json: 2,
  wrong_key: 2,
  revoked_key: 1,
  no_key: 1,
  unknown_model: 2,
  forbidden_model: 1,
  no_messages: 1,
  bad_type: 1,
  too_large_cap: 1,
  no_tools: 1,
  bad_schema: 1,
  content_type: 1,
  wrong_method: 1,
  unknown_url: 1,
} as const
type Mistake = keyof typeof MISTAKES

const invalid = (status: number, code: string | null, param?: string): Refusal => ({
  status,
  type: 'invalid_request_error',
  code,
  ...(param === undefined ? {} : { param }),
})

const NOT_FOUND = invalid(404, 'model_not_found', 'model')

/** Makes a valid request invalid. */
export function toMistaken(random: () => number, chat: Unwritten): RequestPlan {
  const plain: Unwritten = { ...chat, key: 'main', model: 'acme/large', n: 1, format: 'text', maxTokens: null }
  const wrong = (fields: Partial<Unwritten>, refusal: Refusal, body: object = {}): RequestPlan => {
    const plan = { ...plain, ...fields, refusal }
    return { ...plan, body: toBody(plan, body) }
  }
  const told: Record<Mistake, () => RequestPlan> = {
    bad_json: () => ({ ...wrong({}, invalid(400, null)), body: toBody(plain).slice(0, -2) }),
    wrong_key: () => wrong({ key: 'wrong' }, invalid(401, 'invalid_api_key')),
    revoked_key: () => wrong({ key: 'revoked' }, invalid(401, 'invalid_api_key')),
    no_key: () => wrong({ key: null }, invalid(401, null)),
    unknown_model: () => wrong({ model: `acme/none-${chat.number}` }, NOT_FOUND),
    forbidden_model: () => wrong({ key: 'picky', model: 'acme/large' }, NOT_FOUND),
    no_messages: () => wrong({}, invalid(400, 'empty_array', 'messages'), { messages: [] }),
    bad_type: () => wrong({}, invalid(400, 'invalid_type', 'temperature'), { temperature: 'hot' }),
    too_large_cap: () => wrong({ maxTokens: MAX_OUTPUT + 1 }, invalid(400, null, 'max_tokens')),
    no_tools: () => wrong({ model: 'acme/weak', format: 'tools' }, invalid(400, 'unsupported_parameter', 'tools')),
    bad_schema: () => wrong({}, invalid(400, null, 'response_format'), { response_format: BAD_SCHEMA }),
    content_type: () => wrong({}, invalid(400, 'unsupported_content_type')),
    wrong_method: () => wrong({ method: 'PUT' }, invalid(405, 'method_not_supported')),
    unknown_url: () => wrong({ path: '/v1/chats' }, invalid(404, null)),
  }
  return told[pick(random, MISTAKES)]()
}

const BAD_SCHEMA = { type: 'json_schema', json_schema: { name: 'wrong', schema: { type: 'no such type' } } }
