/**
 * What is said over `control.sock`: its path, the shapes of its answers. Server and command line both read this. Pure. No
 * secret is ever part of an answer: of a credential only whether there is one.
 */

import { join } from 'node:path'
import { type Static, type TProperties, type TSchema, Type } from '@sinclair/typebox'
import type { DiskState } from '../documents/server.ts'
import type { UpstreamStatus } from '../documents/upstream.ts'
import { byMsField } from '../domain/deadlines.ts'
import type { ServerStatus } from '../domain/model-server.ts'
import { REQUEST_STATUSES } from '../domain/report-filters.ts'
import type { SettledRow } from '../store/ledger-rows.ts'
import type { RequestFilter } from '../store/report-store.ts'

/** Path of the socket in a data folder. It may be longer than the 107 bytes of the system's call: Bun goes around that. */
export const socketPath = (dataFolder: string) => join(dataFolder, 'control.sock')

const Text = Type.String()
const Amount = Type.Number()
const orNull = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])
const oneOf = <T extends string>(...values: T[]) =>
  Type.Unsafe<T>(Type.Union(values.map((value) => Type.Literal(value))))
/** A whole answer. Said outright that it may have more fields: Elysia would write the opposite into the schema itself. */
const answer = <T extends TProperties>(fields: T) => Type.Object(fields, { additionalProperties: true })

/** By which the first owner signs in. */
export const SetupCode = answer({ code: Text })

/** `documents/upstream.ts` says what each field means. */
const UpstreamShape = Type.Unsafe<UpstreamStatus>(
  Type.Object({
    id: Text,
    state: Text,
    reason: orNull(Text),
    targets: Type.Array(Type.Object({ model: Text })),
    dialect: Text,
    base_url: orNull(Text),
    local: Type.Boolean(),
    deadlines: Type.Object(byMsField(() => Amount)),
    limits: Type.Object({ rpm: orNull(Amount), tpm: orNull(Amount), concurrency: orNull(Amount) }),
    credential: oneOf('set', 'not_set', 'none'),
    credentials: Type.Array(Type.Object({ number: Amount })),
    process: orNull(Type.Object({ state: Text, answering: Amount, waiting: Amount })),
  }),
)

/**
 * `limit`: most files that the process may have open; null where that is not known. `max_in_flight`: requests that are taken at
 * once, which may be fewer than the wanted ones of `--max-in-flight`: each takes two files, its client's and its upstream's.
 */
export const FileLimit = Type.Object({ limit: orNull(Amount), max_in_flight: Amount, wanted_in_flight: Amount })
export type FileLimit = Static<typeof FileLimit>

/** `disk.ts` says what each field means. */
const Disk = Type.Unsafe<DiskState>(
  Type.Object({
    state: oneOf('ok', 'filling', 'full'),
    used_bytes: Amount,
    free_bytes: Amount,
    budget_bytes: orNull(Amount),
  }),
)

/** Answer of `GET /status`. */
export const Status = answer({
  version: Text,
  /** Id of this run of the server: a part of the names of its journal's files, and in its ledger rows. */
  instance: Text,
  pid: Amount,
  /** Ends in `/v1`. */
  url: Text,
  started_ms: Amount,
  readiness: oneOf('ok', 'degraded', 'starting', 'draining', 'ledger_unavailable'),
  /** `behind`: the oldest row has waited for the database for 10 s; `unavailable`: the journal takes no new requests. */
  ledger: oneOf('ok', 'behind', 'unavailable'),
  /** What of the data folder is gone, or no longer what the server writes to. */
  lost: orNull(oneOf('database', 'journal')),
  /** How full the disk is; null before it was measured. */
  disk: orNull(Disk),
  config_revision: Amount,
  /** `every_ms`: 0 = none is scheduled; `failed`: why the last one could not be made. */
  backups: Type.Object({ every_ms: Amount, failed: orNull(Text) }),
  /** Why requests are refused for want of room, or were within the last seconds; null where none is. */
  full: orNull(Text),
  /** Requests under way. */
  in_flight: Amount,
  /** Bytes of bodies and answers that are held in memory for them. */
  buffered_bytes: Amount,
  files: FileLimit,
  /** A proxy that forwards requests and is not one of --trusted-proxy, by its address; null where none was seen. */
  untrusted_proxy: orNull(Text),
  upstreams: Type.Array(UpstreamShape),
})
export type Status = Static<typeof Status>

/**
 * Answer of `POST /upstreams/<id>/test`. States: `ready`; `unknown` = it answers, but not to a request that costs nothing;
 * `refused` = it refuses the credential; `degraded` = it answers with an error, or breaks off; `timeout` = it said nothing in
 * time; `down` = it cannot be reached; `not_made` = this process has no files or ports left to ask it; `not_ready` = it was
 * not asked, since it could not be called anyway.
 */
export const TestResult = answer({
  id: Text,
  state: oneOf('ready', 'unknown', 'refused', 'degraded', 'timeout', 'down', 'not_made', 'not_ready'),
  /** In words, where it is neither `ready` nor `unknown`; or of several credentials what is wrong with those that do not work. */
  reason: orNull(Text),
  /** How long the answer took; null where nothing was asked. */
  ms: orNull(Amount),
})
export type TestResult = Static<typeof TestResult>

/** Answer of `POST /upstreams/<id>/start` and `/stop`: how its server stands once that is done, or has failed. */
export const ServerShape = Type.Unsafe<ServerStatus>(Type.Object({ state: Text, reason: orNull(Text) }))

/** Answer of `POST /ledger/flush`: ledger records that the database has taken now, and those that it has not. */
export const Flushed = Type.Object({ applied: Amount, waiting: Amount })
export type Flushed = Static<typeof Flushed>

/** Answer of `POST /secret/rotate`: how many credentials were sealed anew, and upstreams whose did not open. */
export const RotatedShape = Type.Object({ credentials: Amount, unopened: Type.Array(Text) })

/** Answer of `GET /secret`: how what was typed in stands before the server, by its own environment (`store/vault.ts`). */
export const VaultShape = answer({
  where: Text,
  sealed_by: orNull(Text),
  credentials: Amount,
  problems: Type.Array(Type.Object({ upstream: Text, problem: Text })),
})

/** Which requests `GET /requests/tail?filter=<JSON>` is to tell of. */
export const TailFilter = Type.Object(
  {
    keyId: Type.Optional(Text),
    teamId: Type.Optional(Text),
    model: Type.Optional(Text),
    upstream: Type.Optional(Text),
    statuses: Type.Optional(Type.Array(oneOf(...REQUEST_STATUSES))),
    user: Type.Optional(Text),
    errorCode: Type.Optional(Text),
  } satisfies Record<keyof Omit<RequestFilter, 'ownKeys'>, TSchema>,
  { additionalProperties: false },
)

/**
 * A line of its answer, which goes on until the server stops, empty lines now and then: a request that has finished, as the ledger
 * has it, and why its upstream failed; or how many of them its reader was too slow for; or, last, that the server stops.
 */
export const TailLine = Type.Union([
  Type.Object({
    row: Type.Unsafe<SettledRow>(Type.Object({ id: Text }, { additionalProperties: true })),
    reason: orNull(Text),
  }),
  Type.Object({ dropped: Amount }),
  Type.Object({ end: Text }),
])
export type TailLine = Static<typeof TailLine>

/** Body of every answer that is not 2xx. */
export const ControlError = answer({ error: Type.Object({ kind: Text, message: Text }) })
export type ControlError = Static<typeof ControlError>
