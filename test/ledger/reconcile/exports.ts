/** Pages in the form of the providers' APIs, for one UTC day. */

export const DAY = Date.UTC(2026, 10, 16)
const DAY_S = 86_400

const toPage = <Bucket extends object>(bucket: Bucket) => ({ data: [bucket], has_more: false, next_page: null })

const toOpenai = (results: object[], dayMs: number) => ({
  object: 'page',
  ...toPage({ object: 'bucket', start_time: dayMs / 1_000, end_time: dayMs / 1_000 + DAY_S, results }),
})

export const usage = (lines: object[], dayMs = DAY) =>
  toOpenai(
    lines.map((line) => ({
      ...{ object: 'organization.usage.completions.result', model: 'gpt-5', api_key_id: null, project_id: null },
      ...{ input_tokens: 1_000, input_cached_tokens: 0, output_tokens: 500, num_model_requests: 5, ...line },
    })),
    dayMs,
  )

/** Amounts are `VALUE`, unless given. */
export const costs = (lines: object[], dayMs = DAY) =>
  toOpenai(
    lines.map((line) => ({
      ...{ object: 'organization.costs.result', amount: { value: 'VALUE', currency: 'usd' } },
      ...{ line_item: 'gpt-5, input', project_id: null, ...line },
    })),
    dayMs,
  )

const toAnthropic = (results: object[], dayMs: number) => {
  const [start, end] = [dayMs, dayMs + DAY_S * 1_000].map(
    (ms) => `${new Date(ms).toISOString().slice(0, 10)}T00:00:00Z`,
  )
  return toPage({ starting_at: start, ending_at: end, results })
}

export const usageReport = (lines: object[], dayMs = DAY) =>
  toAnthropic(
    lines.map((line) => ({
      ...{ api_key_id: null, context_window: '0-200k', model: null, service_tier: 'standard', workspace_id: null },
      ...{ uncached_input_tokens: 1_500, cache_read_input_tokens: 200, output_tokens: 500 },
      cache_creation: { ephemeral_1h_input_tokens: 1_000, ephemeral_5m_input_tokens: 500 },
      ...{ server_tool_use: { web_search_requests: 10 }, ...line },
    })),
    dayMs,
  )

export const costReport = (lines: object[], dayMs = DAY) =>
  toAnthropic(
    lines.map((line) => ({
      ...{ amount: '100', currency: 'USD', cost_type: 'tokens', token_type: 'output_tokens', model: null },
      ...{ description: 'Claude Usage', workspace_id: null, service_tier: 'standard', ...line },
    })),
    dayMs,
  )

export const activity = (lines: object[]) => ({
  data: lines.map((line) => ({
    ...{ date: '2026-11-16', model: 'openai/gpt-5', model_permaslug: 'openai/gpt-5-2026-01-02', endpoint_id: 'e' },
    ...{ provider_name: 'OpenAI', usage: 0.015, byok_usage_inference: 0, requests: 5 },
    ...{ prompt_tokens: 50, completion_tokens: 125, reasoning_tokens: 25, ...line },
  })),
})
