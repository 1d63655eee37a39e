/** All code for snippets, loaded when some are shown. */
export { toSnippets } from '../keys/snippets.ts'
export { toChatSnippets } from './snippets.ts'
