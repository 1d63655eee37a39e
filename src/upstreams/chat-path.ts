/** Where chats go below an upstream's address, by its setting `path`. Pure. */
import type { UpstreamSettings } from '../domain/dialects.ts'

/** @param usual where its dialect has them, where the setting says nothing. */
export const toChatPath = ({ path }: Pick<UpstreamSettings, 'path'>, model: string, usual: string): string =>
  path === undefined ? usual : path.replaceAll('{model}', () => encodeURIComponent(model))
