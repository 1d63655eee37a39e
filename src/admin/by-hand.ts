/** Changes of the catalogue by hand, as its controllers have them done: made, or with `?plan=true` only told. */
import type { EditBy, Edited } from '../catalog/edit.ts'
import { toEditDocument } from '../documents/catalog.ts'
import type { Principal } from '../identity/principal.ts'
import { actors } from './actor.ts'
import type { AdminDeps } from './deps.ts'

/** Of a request for such a change. */
export interface ByHand {
  request: Request
  principal: Principal
  query: { plan?: boolean }
}

/** Makes what does such a change, or plans it, and tells what it changes; from then on the server goes by it. */
export function changesByHand({ serving, ...deps }: Pick<AdminDeps, 'serving' | 'now' | 'changes'>) {
  const by = actors(deps)
  return async <Made extends Edited>(
    { request, principal, query: { plan: isPlan = false } }: ByHand,
    work: (by: EditBy) => Promise<Made>,
  ) => {
    const edited = await work({ ...by(principal, request), isPlan })
    if (!isPlan) await serving.refresh()
    return { planned: isPlan, ...toEditDocument(edited) }
  }
}
