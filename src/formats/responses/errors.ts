/** Errors of the Responses API: field names and codes that its clients know. */
import { GatewayError } from '../../domain/error.ts'

/** @param why what to do instead. */
export const unsupported = (param: string, why: string) =>
  new GatewayError('invalid_request', `Unsupported parameter: '${param}' is not supported here. ${why}`, {
    code: 'unsupported_parameter',
    param,
  })

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

/** @param tools request paths of the canonical request's tools, if known. */
export function toOwnParam(param: string | null, tools?: readonly string[]): string | null {
  const [, name = '', index] = /^([a-z_]+)(?:\[(\d+)\])?/.exec(param ?? '') ?? []
  if (name === 'tools' && index !== undefined && tools) {
    const at = tools[Number(index)] ?? 'tools'
    return param?.endsWith('.parameters') ? `${at}.parameters` : at
  }
  return NAMES[name] ?? param
}

const CODES: Readonly<Record<string, string>> = { upstream_rate_limited: 'rate_limit_exceeded' }

/** Codex reads the wait from the message, since headers were sent before. */
export function toFailure({ code, message, headers }: GatewayError): { code: string; message: string } {
  const known = code === null ? 'server_error' : (CODES[code] ?? code)
  const wait = headers['retry-after']
  return { code: known, message: wait === undefined ? message : `${message} Please try again in ${wait}s.` }
}
