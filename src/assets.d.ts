/** Files that Bun imports as text or by path and compiles into the binary. */
declare module '*.sql' {
  const text: string
  export default text
}
declare module '*.lua' {
  const text: string
  export default text
}
declare module '*.yaml' {
  const text: string
  export default text
}
declare module '*.jsonl' {
  const path: string
  export default path
}

declare module '*.gz' {
  const path: string
  export default path
}
declare module '*.css'
