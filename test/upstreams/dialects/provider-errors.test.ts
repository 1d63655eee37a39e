/** Refusals of each provider: facts for clients and for a route's breaker are recognized without any setting. */
import { expect, test } from 'bun:test'
import { allPresets } from '../../../src/store/presets.ts'
import { DEFAULT_OPTIONS } from '../../../src/upstreams/dialects/dialects.ts'
import { readFailure } from '../../../src/upstreams/dialects/errors.ts'
import { openai } from '../../../src/upstreams/dialects/openai/openai.ts'
import { toTarget } from '../../support/snapshot.ts'

type Told = {
  message: string | RegExp
  code?: string | null
  param?: string | null
  retryable?: boolean
  status?: number
}

const MORE_CREDITS = 'This request requires more credits, or fewer max_tokens. You requested up to'

const CASES: [preset: string, status: number, body: unknown, told: Told][] = [
  [
    'openai',
    400,
    {
      error: { message: 'Unknown parameter.', type: 'invalid_request_error', param: 'foo', code: 'unknown_parameter' },
    },
    { message: 'Unknown parameter.', code: 'unknown_parameter', param: 'foo' },
  ],
  [
    'openai',
    400,
    { error: { message: 'Billing hard limit has been reached', code: 'billing_hard_limit_reached', type: 'x' } },
    { message: 'Billing hard limit has been reached', code: 'billing_hard_limit_reached', status: 402 },
  ],
  [
    'azure',
    400,
    {
      error: {
        ...{ code: 'content_filter', message: 'The prompt was filtered.', param: 'prompt', status: 400, type: null },
        innererror: { code: 'ResponsibleAIPolicyViolation', content_filter_result: { hate: { filtered: true } } },
      },
    },
    { message: 'The prompt was filtered.', code: 'content_filter', param: 'prompt' },
  ],
  [
    'azure-deployments',
    429,
    { error: { code: '429', message: 'Requests have exceeded the limit.' } },
    { message: 'Requests have exceeded the limit.', code: '429', retryable: true },
  ],
  ['bedrock', 403, { message: 'The security token is expired' }, { message: 'The security token is expired' }],
  [
    'vertex',
    429,
    [{ error: { code: 429, message: 'Resource exhausted.', status: 'RESOURCE_EXHAUSTED' } }],
    { message: 'Resource exhausted.', code: '429', retryable: true },
  ],
  [
    'openrouter',
    402,
    { error: { code: 402, message: 'Insufficient credits', metadata: { raw: 'x' } }, user_id: 'u' },
    { message: 'Insufficient credits', code: '402' },
  ],
  [
    'openrouter',
    402,
    { error: { code: 402, message: `${MORE_CREDITS} 65536 tokens, but can only afford 3919. To increase, visit us` } },
    { message: /can only afford 3919/, code: 'request_unaffordable', status: 402, retryable: false },
  ],
  [
    'openrouter',
    402,
    { error: { code: 402, message: 'Prompt tokens limit exceeded: 230799 > 91442. To increase, visit us' } },
    { message: /^Prompt tokens/, code: 'request_unaffordable', status: 402, retryable: false },
  ],
  [
    'openrouter',
    402,
    { error: { code: 402, message: `${MORE_CREDITS} 32000 tokens, but can only afford 0. To increase, visit us` } },
    { message: /can only afford 0/, code: '402' },
  ],
  [
    'mistral',
    400,
    { object: 'error', message: 'Invalid model: x', type: 'invalid_model', param: null, code: '1500' },
    { message: 'Invalid model: x', code: '1500' },
  ],
  [
    'mistral',
    422,
    { detail: [{ type: 'extra_forbidden', loc: ['body', 'foo'], msg: 'Extra inputs are not permitted', input: 1 }] },
    { message: /Extra inputs are not permitted/, param: 'foo' },
  ],
  [
    'groq',
    400,
    { error: { message: 'Tool call validation failed', type: 'invalid_request_error', code: 'tool_use_failed' } },
    { message: 'Tool call validation failed', code: 'tool_use_failed' },
  ],
  ['groq', 498, { error: { message: 'Flex is full' } }, { message: 'Flex is full' }],
  [
    'deepseek',
    402,
    { error: { message: 'Insufficient Balance', type: 'unknown_error', param: null, code: 'invalid_request_error' } },
    { message: 'Insufficient Balance', code: 'invalid_request_error' },
  ],
  ['xai', 400, { code: 'Client specified an invalid argument', error: 'Bad model' }, { message: 'Bad model' }],
  ['xai', 503, { error: 'Overloaded' }, { message: 'Overloaded', retryable: true }],
  [
    'xai',
    429,
    { error: { message: 'Slow down', type: null, param: null, code: 429 } },
    { message: 'Slow down', code: '429', retryable: true },
  ],
  ['fireworks', 404, { error: 'Model not found' }, { message: 'Model not found' }],
  [
    'cerebras',
    400,
    {
      ...{ message: 'messages.2.assistant.reasoning_content: property is unsupported', type: 'invalid_request_error' },
      ...{ param: 'validation_error', code: 'wrong_api_format' },
    },
    { message: /is unsupported$/, code: 'wrong_api_format', param: 'validation_error' },
  ],
  [
    'perplexity',
    401,
    '<html><head><title>401 Authorization Required</title></head></html>',
    { message: 'gave no reason' },
  ],
  [
    'moonshot',
    429,
    { error: { message: 'Your account is suspended', type: 'exceeded_current_quota_error' } },
    { message: 'Your account is suspended', status: 402, retryable: false },
  ],
  [
    'zai',
    429,
    { error: { code: '1113', message: 'No balance' } },
    { message: 'No balance', code: '1113', status: 402, retryable: false },
  ],
  [
    'qwen',
    400,
    { error: { code: 'invalid_parameter_error', param: null, message: 'Range', type: 'invalid_request_error' } },
    { message: 'Range', code: 'invalid_parameter_error' },
  ],
  ['cohere', 400, { id: 'x', message: 'invalid request: no model' }, { message: 'invalid request: no model' }],
  [
    'openrouter',
    403,
    {
      error: {
        code: 403,
        message: 'Your chosen model requires moderation and your input was flagged',
        metadata: { flagged_input: 'x' },
      },
    },
    { message: /flagged$/, code: 'content_policy_violation', status: 400, retryable: false },
  ],
  [
    'xai',
    403,
    { code: 'denied', error: 'Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_X' },
    { message: /^Content violates/, code: 'content_policy_violation', status: 400, retryable: false },
  ],
  [
    'nvidia',
    403,
    { status: 403, title: 'Forbidden', detail: 'Authorization failed' },
    { message: /Authorization failed/ },
  ],
  [
    'huggingface',
    400,
    { error: { message: 'The model is not supported', code: 'model_not_supported' } },
    {
      message: 'The model is not supported',
      code: 'model_not_supported',
    },
  ],
]

test.each(CASES)('%s: %d %j', (preset, status, body, { message, ...told }) => {
  const { cost: _, ...settings } = allPresets()[preset]?.settings ?? {}
  const options = { ...DEFAULT_OPTIONS, ...settings }
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const error = readFailure(openai, status, text, { header: () => null }, toTarget({ options }))
  expect(error).toMatchObject({ kind: 'status', status, ...told })
  if (typeof message === 'string') expect(error.message).toBe(message)
  else expect(error.message).toMatch(message)
})
