/** Errors of the admin API, `{"error":{"kind","message",…}}`, with the kinds of the CLI and a few of its own; and JSON parsing. */
import { Kind } from '@sinclair/typebox'
import type { ValueError } from '@sinclair/typebox/errors'
import { ValidationError } from 'elysia'
import { explain, toRule } from '../domain/explain.ts'
import { type JsonLimits, JsonScan } from '../domain/json-text.ts'
import { ServiceError, type ServiceFailure } from '../domain/service-error.ts'
import { NoRoute } from '../http/instance.ts'
import { refusalOf } from '../store/refusal.ts'

/** Far above any valid catalog. */
const LIMITS: JsonLimits = { depth: 32, values: 200_000, escapes: 1_000_000, bare: 4 * 1024 ** 2 }

/** Throws for invalid or oversized JSON; Elysia reports any error here as a parse error. */
export async function readJson(request: Request): Promise<unknown> {
  const text = await request.text()
  if (new JsonScan(LIMITS).take(text) === null) return JSON.parse(text)
  throw new Error('the body holds too much')
}

const NOT_READ = `The body must be JSON of at most ${LIMITS.depth} levels and ${LIMITS.values} values, with the content type application/json.`

/** An error of the API itself, before a service is called. */
export class AdminError extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    message: string,
    readonly headers: Record<string, string> = {},
  ) {
    super(message)
  }
}

/** Status by kind; default: 409. */
const STATUS: Partial<Record<ServiceFailure['kind'], number>> = {
  ...{ invalid: 400, catalog_invalid: 400, report_too_long: 400, code_wrong: 400 },
  ...{ sign_in_failed: 401, no_team: 403, too_many_attempts: 429, sign_in_ended: 400, challenge_ended: 400 },
  ...{ password_off: 403, no_role: 403, admin_disabled: 403, provider_wrong: 502, provider_unavailable: 503 },
  ...{
    key_not_found: 404,
    team_not_found: 404,
    admin_not_found: 404,
    token_not_found: 404,
    alert_not_found: 404,
    session_not_found: 404,
    passkey_not_found: 404,
    backup_not_found: 404,
    node_not_found: 404,
  },
  ...{
    list_failed: 502,
    facts_unusable: 502,
    owners_only: 403,
    secret_unusable: 500,
    catalog_not_read: 503,
    cluster_unreachable: 503,
    cluster_newer: 503,
    catalog_unreadable: 500,
  },
  ...{ revision_conflict: 412, above_ceiling: 403 },
  ...{ model_not_found: 404, upstream_not_found: 404, route_not_found: 404 },
  ...{ request_not_found: 404, request_removed: 410, version_not_found: 404, no_room: 507 },
}

export const statusOf = (kind: ServiceFailure['kind']): number => STATUS[kind] ?? 409

/** Null for internal errors. */
export function toRefusal(error: unknown): Response | null {
  if (error instanceof AdminError) return refuse(error.status, error.kind, error.message, {}, error.headers)
  if (error instanceof ServiceError) return ofService(error)
  if (error instanceof NoRoute) {
    const { allow } = error
    return allow === null
      ? refuse(404, 'unknown_path', error.message)
      : refuse(405, 'wrong_method', error.message, {}, { allow })
  }
  if (error instanceof ValidationError) return refuse(400, 'invalid', ...toSentence(error))
  if (isParseError(error)) return refuse(400, 'invalid', NOT_READ)
  const refused = refusalOf(error)?.reason
  if (refused === 'busy')
    return refuse(503, 'database_busy', 'Another process is writing to the database. No changes made; try again.')
  if (refused === 'full')
    return refuse(507, 'disk_full', 'The disk is full. No changes made. Free disk space and try again.')
  return null
}

export const refuse = (
  status: number,
  kind: string,
  message: string,
  more: Record<string, unknown> = {},
  headers: Record<string, string> = {},
): Response => Response.json({ error: { kind, message, ...more } }, { status, headers })

function ofService({ failure, message }: ServiceError): Response {
  const { kind, ...more } = failure
  const headers: Record<string, string> =
    failure.kind === 'too_many_attempts' ? { 'retry-after': String(Math.ceil(failure.retryAfterMs / 1_000)) } : {}
  return refuse(statusOf(kind), kind, message, toSnake(more), headers)
}

const toSnake = (fields: object) =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name.replaceAll(/[A-Z]/g, (c) => `_${c.toLowerCase()}`), value]),
  )

/** The first problem, with the field's path such as `budget.usd`. */
function toSentence({ type, all }: ValidationError): [message: string, more: { field: string }] {
  const [first] = all
  const field = first && 'path' in first ? first.path.slice(1).replaceAll('/', '.') : ''
  const said = (first && 'summary' in first && first.summary) || 'Unexpected value'
  // The value may be secret or long.
  const [problem] = said.split(' but found: ')
  return [`Invalid ${field || type}: ${(first && 'schema' in first && toReason(first)) || `${problem}.`}`, { field }]
}

/** The expected values or bounds; null for other problems. */
function toReason({ schema, value }: ValueError): string | null {
  const isKnown = value !== undefined && schema[Kind] !== 'Object' && schema[Kind] !== 'String'
  const [problem] = isKnown ? explain(schema, value, { quotes: false }) : []
  return problem ? toRule(problem) : null
}

const isParseError = (error: unknown) =>
  typeof error === 'object' && error !== null && 'code' in error && error.code === 'PARSE'
