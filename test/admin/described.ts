/** Checks every response in the admin API's tests against the route's OpenAPI description. */
import { expect } from 'bun:test'
import type { Admin } from '../../src/admin/instance.ts'
import { toAdminDocument } from '../../src/admin/openapi-document.ts'
import { toPattern } from '../../src/http/instance.ts'
import { toProblems } from '../support/described.ts'

export interface Operation {
  operationId: string
  summary?: string
  description: string
  tags: string[]
  parameters?: { name: string; in: string; description?: string }[]
  requestBody?: { content: Record<string, { schema: { properties?: Record<string, { description?: string }> } }> }
  responses: Record<string, { description: string; content?: Record<string, { schema: object }> }>
  'x-least-role': string | null
}
export type Paths = Record<string, Record<string, Operation>>

/** Created once: every fixture has the same routes. */
let paths: Paths | null = null

export function expectDescribed(admin: Admin, method: string, path: string, status: number, body: unknown): void {
  paths ??= toAdminDocument(admin, 'tollgate').paths as Paths
  const plain = path.replace(/\?.*/, '')
  const ours = admin.routes.filter((one) => one.method === method && toPattern(one.path).test(plain))
  const route = ours.find((one) => one.path === plain) ?? ours[0]
  if (!route) return
  const name = `${method} ${route.path}`
  const operation = paths[route.path.replaceAll(/:([^/]+)/g, '{$1}')]?.[method.toLowerCase()]
  const answer = operation?.responses[status]
  if (status < 400) {
    expect([name, answer !== undefined]).toEqual([name, true])
    if (route.answer) expect({ [name]: toProblems(route.answer, body) }).toEqual({ [name]: [] })
    return
  }
  const { kind } = (body as { error: { kind: string } }).error
  if (kind !== 'unknown_path') expect(`${name}: ${status} ${answer?.description}`).toContain(`\`${kind}\``)
}
