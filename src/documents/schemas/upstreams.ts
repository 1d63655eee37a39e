/** What is told of upstreams, and of the providers that one can be set up as. */
import { Type } from '@sinclair/typebox'
import { SERVER_STATES } from '../../domain/model-server.ts'
import type { ShownPreset, ShownUpstream, toFoundDocument, UpstreamTest } from '../upstream.ts'
import {
  Count,
  CountOrNull,
  describes,
  Flag,
  orNull,
  Revision,
  Text,
  TextOrNull,
  Time,
  TimeOrNull,
  wordOf,
} from './describes.ts'

/** Of a model at a local server, while that runs. */
export const SERVED = {
  context_length: CountOrNull,
  quantization: TextOrNull,
  size_bytes: CountOrNull,
  tokens_per_second: orNull(Type.Number()),
}

export const Upstream = describes<ShownUpstream>()(
  Type.Object({
    id: Text,
    revision: Revision,
    dialect: Text,
    preset: TextOrNull,
    base_url: TextOrNull,
    local: Flag,
    deadlines: Type.Object({
      ...{ headers_ms: Count, first_token_ms: Count, idle_ms: Count, total_ms: Count, total_whole_ms: Count },
    }),
    limits: Type.Object({ rpm: CountOrNull, tpm: CountOrNull, concurrency: CountOrNull }),
    state: wordOf(['healthy', 'degraded', 'refused', 'down', 'unknown', 'not_ready', 'disabled'] as const),
    reason: TextOrNull,
    enabled: Flag,
    origin: Text,
    credential: orNull(Type.Object({ variable: TextOrNull, status: wordOf(['set', 'not_set'] as const) })),
    credentials: Type.Array(
      Type.Object({
        number: Count,
        from: wordOf(['variable', 'file', 'typed_in'] as const),
        name: TextOrNull,
        status: wordOf(['set', 'not_set', 'left_out'] as const),
        reason: TextOrNull,
        back_in_ms: CountOrNull,
      }),
    ),
    process: orNull(
      Type.Object({
        state: wordOf(SERVER_STATES),
        reason: TextOrNull,
        pid: CountOrNull,
        ...{ answering: Count, waiting: Count, memory_bytes: CountOrNull },
      }),
    ),
    served: Type.Array(Type.Object({ upstream_model: Text, ...SERVED })),
    last_ok_ms: TimeOrNull,
    last_error: orNull(Type.Object({ message: Text, at_ms: Time })),
    targets: Type.Array(
      Type.Object({
        model: Text,
        upstream_model: Text,
        breaker: wordOf(['closed', 'open', 'half_open'] as const),
        open_for_keys: CountOrNull,
        failures_in_a_row: Count,
        retry_in_ms: CountOrNull,
        reason: TextOrNull,
      }),
    ),
  }),
)

export const Preset = describes<ShownPreset>()(
  Type.Object({
    ...{ id: Text, name: Text, dialect: Text },
    base_url: orNull(Type.String({ description: 'null: each customer has another one, such as the example.' })),
    example: TextOrNull,
    variable: orNull(Type.String({ description: 'Which variable its own libraries read the credential from.' })),
  }),
)

export const Found = describes<ReturnType<typeof toFoundDocument>>()(
  Type.Object({
    servers: Type.Array(
      Type.Object({
        ...{ preset: Text, name: Text, base_url: Text },
        upstream: orNull(Type.String({ description: 'Which one it is here; null: none yet.' })),
        id: Type.String({ description: 'What it is called, or is to be called where it is added.' }),
      }),
    ),
    providers: Type.Array(
      Type.Object({
        ...{ preset: Text, name: Text },
        variable: Type.String({ description: 'It is set for the server; what it holds is told to nobody.' }),
      }),
    ),
  }),
)

export const TestedUpstream = describes<UpstreamTest>()(
  Type.Object({ id: Text, state: Text, reason: TextOrNull, ms: CountOrNull }),
)
