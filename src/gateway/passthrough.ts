/**
 * Whether a request passes to a target as it came, where that speaks its client's format and nothing about it has to be seen to, or is
 * translated. Decided for each attempt.
 */

import type { GatewayError } from '../domain/error.ts'
import type { RefusalReason } from '../domain/fields.ts'
import { asList } from '../domain/json.ts'
import type { CanonicalRequest } from '../domain/request.ts'
import type { Target } from '../domain/snapshot.ts'
import type { NativeRequest, Task } from '../domain/task.ts'
import { checkRestricted, findNativeRestricted, mayBeSent, type RestrictedField } from '../routing/restricted-fields.ts'
import { dialectOf } from '../upstreams/dialects/dialects.ts'
import { withoutTools } from '../upstreams/dialects/passthrough.ts'
import { isSplit } from './fan-out.ts'
import { isEnforced } from './structured-plan.ts'

/** Which targets are sent one request as it came. */
export interface Passthrough {
  /** What a target is sent as it came; null where that is translated. */
  of(target: Target): NativeRequest | null
  /** The refusal of what a target may not be sent either way, though it would be as it came; null where there is none. */
  refusal(target: Target): GatewayError | null
}

const TRANSLATED: Passthrough = { of: () => null, refusal: () => null }

export function toPassthrough(task: Task): Passthrough {
  if (task.endpoint === 'embeddings' || !task.native) return TRANSLATED
  const { native, untranslatable, body } = task
  const found = findNativeRestricted(native)
  // What costs more than is known, what is not known, and tools of the provider may be left out where the request is written anew, if
  // anybody writes it.
  const never = found.filter(
    (each) => untranslatable !== undefined || (toolOf(each) === null && !MAY_BE_LEFT_OUT.has(each.reason)),
  )
  // A text for all targets that may not be sent the same: it is as long as the request.
  const known = new Map<string, NativeRequest | null>()
  return {
    of(target) {
      if (!speaks(native, body, target)) return null
      const restricted = found.filter((each) => !mayBeSent(each, target, 'native'))
      if (restricted.length === 0) return native
      return known.getOrInsertComputed(restricted.map(({ param }) => param).join(), () =>
        withoutRestricted(native, restricted),
      )
    },
    refusal: (target) => (speaks(native, body, target) ? checkRestricted(never, target, 'native') : null),
  }
}

const MAY_BE_LEFT_OUT: ReadonlySet<RefusalReason> = new Set<RefusalReason>(['dear', 'fee', 'unknown'])

function speaks({ endpoint }: NativeRequest, body: CanonicalRequest, target: Target): boolean {
  const { native } = target.upstream.options
  const isNative = native !== false && native.includes(endpoint) && dialectOf(target.upstream).native.includes(endpoint)
  return isNative && !isSplit(body, target) && !isEnforced(body, target)
}

/** Which tool it is about; null where it is about the request. */
const toolOf = ({ param }: RestrictedField): number | null => {
  const [, index] = /^tools\[(\d+)\]/.exec(param) ?? []
  return index === undefined ? null : Number(index)
}

/**
 * Codex offers every model a search of the web, and some models know this format alone: tools that must not go on are left out,
 * where the request does not insist on them. Null where that leaves something in doubt.
 */
function withoutRestricted(native: NativeRequest, restricted: readonly RestrictedField[]): NativeRequest | null {
  if (native.endpoint !== 'responses') return null
  const tools = new Set<number>()
  for (const each of restricted) {
    const tool = toolOf(each)
    if (tool === null) return null
    tools.add(tool)
  }
  const { tool_choice: choice } = native.json
  const mayChoose = choice == null || choice === 'auto' || choice === 'none'
  return mayChoose && tools.size < asList(native.json.tools).length ? withoutTools(native, tools) : null
}
