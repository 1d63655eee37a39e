/**
 * From rows of `upstreams` to what a call needs of one: every default filled in, its credential resolved. Called by
 * `snapshot.ts`. Pure.
 */
import { DEFAULT_DEADLINES, DEFAULT_OPTIONS, LOCAL_HEADERS_MS, LOCAL_OPTIONS } from '../domain/settings.ts'
import type { Environment, Upstream } from '../domain/snapshot.ts'
import type { UpstreamRow } from './config-store.ts'

const REFERENCE = /^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$/

/** The variable's name in a reference such as `${OPENAI_API_KEY}`, or null where the text is no reference. */
export function toVariable(reference: string): string | null {
  return REFERENCE.exec(reference)?.[1] ?? null
}

/** Converts the enabled upstreams, by id. */
export function toUpstreams(rows: UpstreamRow[], environment: Environment): Map<string, Upstream> {
  return new Map(rows.filter((row) => row.enabled).map((row) => [row.id, toUpstream(row, environment)]))
}

/** Converts one, enabled or not. */
export function toUpstream(row: UpstreamRow, environment: Environment): Upstream {
  const variable = row.apiKeyRef === null ? null : toVariable(row.apiKeyRef)
  const credential = variable === null ? null : environment[variable] || null
  return {
    id: row.id,
    dialect: row.dialect,
    baseUrl: row.baseUrl,
    local: row.local,
    deadlines: {
      ...DEFAULT_DEADLINES,
      ...(row.local ? { headers: LOCAL_HEADERS_MS } : {}),
      ...row.deadlines,
    },
    limits: {
      requestsPerMinute: row.options.rpm ?? null,
      tokensPerMinute: row.options.tpm ?? null,
      concurrency: row.options.concurrency ?? null,
    },
    // The demo model is local and reached without an address: it needs no allowances.
    options: { ...(row.local && row.baseUrl !== null ? LOCAL_OPTIONS : DEFAULT_OPTIONS), ...row.options },
    credential,
    notReady: variable !== null && credential === null ? `the variable ${variable} is not set on the server` : null,
  }
}
