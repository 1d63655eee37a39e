/**
 * Who has signed or encrypted what a model thought: an upstream and its model there, `upstream/model`. Answers say it as `signer`
 * beside what is signed; it comes back with that, and decides whether it goes on. Another model refuses or drops a signature, and so
 * does the same one elsewhere (ai.google.dev/gemini-api/docs/thought-signatures; platform.claude.com, "Thinking blocks are tied to the
 * model that produced them"). What says no signer came by another way, and may be anybody's. Pure.
 */
import type { Target } from '../../domain/snapshot.ts'

export type Signing = Pick<Target, 'upstreamModel'> & { upstream: Pick<Target['upstream'], 'id'> }

export const toSigner = ({ upstream, upstreamModel }: Signing): string => `${upstream.id}/${upstreamModel}`
