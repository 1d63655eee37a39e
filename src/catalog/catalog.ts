/**
 * What a catalogue declares, once it is read, checked and complete: the plain value between `file.ts`, which makes it,
 * and `plan.ts`, which compares it with the tables. Types only.
 */
import type { AliasRow, ModelRow, RouteRow, UpstreamRow } from '../store/config-store.ts'

export type DeclaredUpstream = Omit<UpstreamRow, 'origin' | 'createdMs' | 'updatedMs'>

export type DeclaredRoute = Omit<RouteRow, 'model' | 'priceId' | 'origin'>

/** The public facts of a model. */
export type Facts = Pick<
  ModelRow,
  | 'name'
  | 'contextLength'
  | 'maxOutputLength'
  | 'inputModalities'
  | 'outputModalities'
  | 'supportedFeatures'
  | 'pricing'
>

export interface DeclaredModel extends Omit<ModelRow, 'priceId' | 'origin' | 'createdMs' | 'updatedMs'> {
  /** Null where the catalogue does not say; the row then keeps the time at which it was made. */
  createdMs: number | null
  routes: DeclaredRoute[]
}

export interface Catalog {
  upstreams: DeclaredUpstream[]
  models: DeclaredModel[]
  aliases: Omit<AliasRow, 'origin'>[]
}

/** A problem in a catalogue file: where, and one sentence. */
export interface Issue {
  segments: (string | number)[]
  message: string
}
