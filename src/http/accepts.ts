/** Whether a request takes an answer in an encoding such as `br` (RFC 9110, section 12.5.3), and does not exclude it. */
export const accepts = (request: Request, encoding: string): boolean =>
  new RegExp(`(^|[,\\s])${encoding}\\s*(,|$|;(?!\\s*q=0(\\.0*)?\\s*(,|$)))`, 'i').test(
    request.headers.get('accept-encoding') ?? '',
  )
