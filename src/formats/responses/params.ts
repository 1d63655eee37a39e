/** What the fields of a canonical request are called in a request of the Responses API, for refusals that name one. Pure. */

const NAMES: Readonly<Record<string, string>> = {
  messages: 'input',
  max_tokens: 'max_output_tokens',
  max_completion_tokens: 'max_output_tokens',
  response_format: 'text.format',
  verbosity: 'text.verbosity',
  reasoning_effort: 'reasoning.effort',
  web_search_options: 'tools',
  logprobs: 'include',
}

/** @param tools the paths of the tools that the canonical request has, where that is known. */
export function toOwnParam(param: string | null, tools?: readonly string[]): string | null {
  const [, name = '', index] = /^([a-z_]+)(?:\[(\d+)\])?/.exec(param ?? '') ?? []
  if (name === 'tools' && index !== undefined && tools) {
    const at = tools[Number(index)] ?? 'tools'
    return param?.endsWith('.parameters') ? `${at}.parameters` : at
  }
  return NAMES[name] ?? param
}
