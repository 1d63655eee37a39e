/** HTTP scenarios as data. Every response is also checked for the error envelope, the request ID, and secrets. */
import { expect } from 'bun:test'
import type { TestApp } from './app.ts'

export interface Scenario {
  name: string
  method?: string
  url: string
  /** Null removes a default header. */
  headers?: Record<string, string | null>
  /** Text and bytes are sent unchanged, anything else as JSON. */
  body?: unknown
  status: number
  error?: { type?: string; code?: string | null; param?: string | null }
  contains?: string[]
  notContains?: string[]
  /** Null = must be absent. */
  expectedHeaders?: Record<string, string | RegExp | null>
  /** New ledger rows. Default 0. */
  ledgerRows?: number
}

/** Plays a scenario with a bearer token (null: without one); returns the body. */
export async function play(app: TestApp, scenario: Scenario, token: string | null = null): Promise<string> {
  const before = await app.count()
  const response = await fetch(new URL(scenario.url, app.origin), toInit(scenario, token))
  const text = await response.text()
  expect({ status: response.status, text }).toMatchObject({ status: scenario.status })
  expect(response.headers.get('x-request-id')).toMatch(/^req_[0-9a-f]{32}$/)
  if (response.status >= 400 && scenario.method !== 'HEAD') expectEnvelope(response, text, scenario.error ?? {})
  for (const part of scenario.contains ?? []) expect(text).toContain(part)
  for (const part of scenario.notContains ?? []) expect(text).not.toContain(part)
  for (const [name, value] of Object.entries(scenario.expectedHeaders ?? {})) {
    const header = response.headers.get(name)
    if (value instanceof RegExp) expect(header).toMatch(value)
    else expect({ [name]: header }).toEqual({ [name]: value })
  }
  for (const secret of app.secrets) {
    expect(text).not.toContain(secret)
    expect(JSON.stringify([...response.headers])).not.toContain(secret)
  }
  expect((await app.count()) - before).toBe(scenario.ledgerRows ?? 0)
  return text
}

/** Checks the error body: JSON with exactly four keys. */
export function expectEnvelope(response: Response, text: string, error: NonNullable<Scenario['error']>): void {
  expect(response.headers.get('content-type')).toStartWith('application/json')
  const body: { error: Record<string, unknown> } = JSON.parse(text)
  expect(Object.keys(body)).toEqual(['error'])
  expect(Object.keys(body.error).sort()).toEqual(['code', 'message', 'param', 'type'])
  expect(body.error.message).toBeString()
  expect(body.error.message).not.toBeEmpty()
  expect(body.error).toMatchObject(error)
  if (response.status === 401) expect(response.headers.get('www-authenticate')).toStartWith('Bearer')
}

function toInit({ method = 'GET', headers = {}, body }: Scenario, token: string | null): RequestInit {
  const sent = new Headers()
  if (token !== null) sent.set('authorization', `Bearer ${token}`)
  if (body !== undefined) sent.set('content-type', 'application/json')
  for (const [name, value] of Object.entries(headers)) {
    if (value === null) sent.delete(name)
    else sent.set(name, value)
  }
  if (body === undefined) return { method, headers: sent }
  const isRaw = typeof body === 'string' || body instanceof Uint8Array || body instanceof ReadableStream
  return { method, headers: sent, body: isRaw ? body : JSON.stringify(body) }
}
